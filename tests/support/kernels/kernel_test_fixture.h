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
#include "reprise/kernels/reference.h"
#include "reprise/tensor/op.h"
#include "reprise/tensor/tensor.h"

/// For tests of kernels only.
namespace reprise::kernels {

/// All tensors of one test, in one stretch of memory filled with 0xFF (NaN, or -1), so that a
/// stream can see whatever a launch touches.
class TestMemory {
 public:
  TestMemory();

  /// Memory with gaps around it, aligned to `alignment` and no more.
  [[nodiscard]] void* take(size_t bytes, size_t alignment);
  [[nodiscard]] std::span<std::byte> used() noexcept { return {memory_.get(), used_}; }

 private:
  std::unique_ptr<std::byte[]> memory_;
  size_t used_ = 0;
};

/// Runs each launch twice on the calling thread and checks what it declared:
/// first block by block, last block first; then in a few larger ranges, with all memory that the
/// launch did not declare overwritten by NaNs. Both must write the same bits, and neither may
/// change a byte outside the declared writes.
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
};

/// Tensors of the tests need an executor to be defined; nobody asks this one for anything.
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
/// Every instruction set of this machine with every float type. (These two are in a file of their
/// own: the tests also run over kernels of another device.)
[[nodiscard]] std::vector<KernelCase> all_kernel_cases();
[[nodiscard]] const KernelTable& kernels_of(const KernelCase& test_case);

/// A test of one op's kernels under one KernelCase.
class KernelTest : public ::testing::TestWithParam<KernelCase> {
 protected:
  [[nodiscard]] const KernelTable& kernels() const { return kernels_of(GetParam()); }
  [[nodiscard]] DType dtype() const { return GetParam().dtype; }

  /// Dense, holding NaNs; of the case's type, or for results of the oracles in float32.
  [[nodiscard]] Tensor make(Shape shape) { return make(shape, dtype()); }
  [[nodiscard]] Tensor make_ref(Shape shape) { return make(shape, DType::f32); }
  [[nodiscard]] Tensor make(Shape shape, DType type);
  /// Dense, normally distributed.
  [[nodiscard]] Tensor random(Shape shape, double deviation = 1.0) {
    return random(shape, dtype(), deviation);
  }
  [[nodiscard]] Tensor random(Shape shape, DType type, double deviation);
  /// A view into a larger tensor of NaNs: rows, and heads if there are any, lie apart.
  [[nodiscard]] Tensor random_strided(Shape shape);
  [[nodiscard]] Tensor ints(const std::vector<int>& values);
  [[nodiscard]] Tensor ints(Shape shape, const std::vector<int>& values);

  void fill_random(const Tensor& tensor, double deviation);

  TestMemory memory_;
  CheckedStream stream_{memory_};
  NoExecutor executor_;
  std::mt19937 random_{42};
};

/// Half an ulp of the type at 1: what storing a result costs.
[[nodiscard]] double rounding_error(DType dtype);
/// Half of the type's smallest step: what storing a result near zero costs.
[[nodiscard]] double underflow_error(DType dtype);

/// For each element of two tensors of one shape: |got - want| <= absolute + relative * |want| ; NaN
/// only where both have it. A reference result in float32 costs no rounding of its own.
void expect_close(const Tensor& got, const Tensor& want, double relative, double absolute);
/// Row `got_row` of one has the bits of row `want_row` of the other (dense tensors of rank >= 2).
void expect_same_row(const Tensor& got, int64_t got_row, const Tensor& want, int64_t want_row);
void expect_same_bits(const Tensor& got, const Tensor& want);

}  // namespace reprise::kernels
