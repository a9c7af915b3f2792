#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "reprise/device/device.h"
#include "reprise/kernels/kernel_table.h"
#include "reprise/tensor/op.h"
#include "reprise/tensor/tensor.h"
#include "tests/support/kernels/reference.h"

/// For tests of kernels only.
namespace reprise::kernels {

/// All tensors of one test, in one range of memory filled with 0xFF (NaN, or -1), so that a stream
/// can check every byte that a launch may touch.
class TestMemory {
 public:
  TestMemory();

  /// Returns memory with gaps around it, aligned to `alignment` and to no larger power of two.
  [[nodiscard]] void* take(size_t bytes, size_t alignment);
  [[nodiscard]] std::span<std::byte> used() noexcept { return {memory_.get(), used_}; }

 private:
  std::unique_ptr<std::byte[]> memory_;
  size_t used_ = 0;
};

/// Runs each launch twice on the calling thread and checks what the launch declared. The first run
/// is block by block, the last block first. The second run is in a few larger ranges, with NaNs in
/// all memory that the launch did not declare, and with other content in what it only writes. Both
/// runs must write the same bits, and neither may change a byte outside of the declared writes.
class CheckedStream final : public device::Stream {
 public:
  explicit CheckedStream(TestMemory& memory) : memory_(memory) {}

  void launch(const device::Launch& launch) override;
  [[nodiscard]] uint64_t num_launches() const noexcept { return counters_.kernel_launches; }

  void copy(void*, const void*, size_t) override { FAIL(); }
  void fill(void*, std::byte, size_t) override { FAIL(); }
  void copy_from_host(void*, const void*, size_t) override { FAIL(); }
  void copy_to_host(void*, const void*, size_t) override { FAIL(); }
  void record(device::Event&) override { FAIL(); }
  void wait(const device::Event&) override { FAIL(); }
  void synchronize() override {}
  void begin_capture() override { FAIL(); }
  [[nodiscard]] std::unique_ptr<device::Graph> end_capture() override { return nullptr; }
  void abort_capture() noexcept override {}
  [[nodiscard]] bool is_capturing() const noexcept override { return false; }
  [[nodiscard]] const device::LaunchCounters& counters() const noexcept override {
    return counters_;
  }
  [[nodiscard]] device::Device& device() const noexcept override { std::abort(); }

 private:
  TestMemory& memory_;
  device::LaunchCounters counters_;
  // The memory before a launch and after its first run. They are members, because a test has
  // hundreds of launches with megabytes of memory.
  std::vector<std::byte> before_;
  std::vector<std::byte> first_;
};

/// A tensor needs an executor to be defined, but the tests never use this one.
class NoExecutor final : public OpExecutor {
 public:
  void execute(const OpCall&, std::span<const Tensor>, std::span<Tensor>) override { FAIL(); }
};

/// One instruction set and one element type.
struct KernelCase {
  Isa isa = Isa::scalar;
  DType dtype = DType::f32;
};
/// "avx2_bfloat16"
[[nodiscard]] std::string case_name(const ::testing::TestParamInfo<KernelCase>& info);
/// Every instruction set of this machine with every float type. (This function and case_name are in
/// a separate file, because the tests also run over kernels of another device.)
[[nodiscard]] std::vector<KernelCase> all_kernel_cases();
/// The same cases and avx512_vnni, for kernels that multiply bytes; all other kernels of
/// avx512_vnni are those of avx512.
[[nodiscard]] std::vector<KernelCase> kernel_cases_of_bytes();
/// All cases of the CPU's kernels but amx_software with float32 and float16: its attention has
/// tiles for bfloat16 only, and with the other types it runs the code of scalar.
[[nodiscard]] std::vector<KernelCase> attention_kernel_cases();
[[nodiscard]] const KernelTable& kernels_of(const KernelCase& test_case);

/// A test of one op's kernels under one KernelCase.
class KernelTest : public ::testing::TestWithParam<KernelCase> {
 protected:
  [[nodiscard]] const KernelTable& kernels() const { return kernels_of(GetParam()); }
  [[nodiscard]] DType dtype() const { return GetParam().dtype; }

  /// Makes a dense tensor of NaNs, of the case's type or, for results of the reference, of float32.
  [[nodiscard]] Tensor make(Shape shape) { return make(shape, dtype()); }
  [[nodiscard]] Tensor make_ref(Shape shape) { return make(shape, DType::f32); }
  [[nodiscard]] Tensor make(Shape shape, DType type) { return make(TensorType{type, shape}); }
  [[nodiscard]] Tensor make(const TensorType& type);
  /// Makes a dense tensor of normally distributed values.
  [[nodiscard]] Tensor random(Shape shape, double deviation = 1.0) {
    return random(shape, dtype(), deviation);
  }
  [[nodiscard]] Tensor random(Shape shape, DType type, double deviation);
  /// Makes a view into a larger tensor of NaNs: there are gaps between rows and, if the shape has
  /// heads, between heads.
  [[nodiscard]] Tensor random_strided(Shape shape);
  [[nodiscard]] Tensor ints(const std::vector<int>& values);
  [[nodiscard]] Tensor ints(Shape shape, const std::vector<int>& values);

  /// A copy of a matrix of bfloat16 in panels.
  [[nodiscard]] Tensor in_panels(const Tensor& matrix);

  void fill_random(const Tensor& tensor, double deviation);

  TestMemory memory_;
  CheckedStream stream_{memory_};
  NoExecutor executor_;
  std::mt19937 random_{42};
};

/// Half an ulp of the type at 1: the largest relative error of storing a result.
[[nodiscard]] double rounding_error(DType dtype);
/// Half of the type's smallest step: the largest error of storing a result near zero.
[[nodiscard]] double underflow_error(DType dtype);

/// Expects for each element of two tensors of the same shape: |got - want| <= absolute + relative *
/// |want|, and a NaN in `got` exactly where `want` has one. A reference result in float32 has no
/// rounding error of its own.
void expect_close(const Tensor& got, const Tensor& want, double relative, double absolute);
/// Expects that row `got_row` of `got` has the same bits as row `want_row` of `want` (dense tensors
/// of rank >= 2).
void expect_same_row(const Tensor& got, int64_t got_row, const Tensor& want, int64_t want_row);
void expect_same_bits(const Tensor& got, const Tensor& want);

}  // namespace reprise::kernels
