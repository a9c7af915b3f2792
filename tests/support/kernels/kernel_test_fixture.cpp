#include "tests/support/kernels/kernel_test_fixture.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "reprise/tensor/column_panels.h"

namespace reprise::kernels {
namespace {

constexpr size_t kGapBytes = 64;
constexpr size_t kMemoryBytes = size_t{64} << 20;

enum class Uses { all, reads, writes };

// Marks the bytes of the memory that at least one of these uses covers.
std::vector<bool> covered_bytes(std::span<const std::byte> memory,
                                std::span<const device::BufferUse> uses,
                                Uses wanted) {
  std::vector<bool> covered(memory.size(), false);
  for (const device::BufferUse& use : uses) {
    if (wanted == Uses::writes && !use.writes()) continue;
    if (wanted == Uses::reads && use.access == device::BufferUse::Access::write) continue;
    const auto begin = static_cast<const std::byte*>(use.data) - memory.data();
    EXPECT_TRUE(begin >= 0 && static_cast<size_t>(begin) + use.bytes <= memory.size())
        << "a use lies outside the memory of the test";
    std::fill_n(covered.begin() + begin, use.bytes, true);
  }
  return covered;
}

int64_t dense_row_bytes(const Tensor& tensor) {
  int64_t elements = 1;
  for (int dim = 1; dim < tensor.rank(); ++dim) elements *= tensor.size(dim);
  return elements * static_cast<int64_t>(dtype_bytes(tensor.dtype()));
}

}  // namespace

// The memory is not initialised here, because most tests use only a small part of it.
TestMemory::TestMemory() : memory_(new std::byte[kMemoryBytes]) {}

void* TestMemory::take(size_t bytes, size_t alignment) {
  // The address is aligned to `alignment` and to no larger power of two, so that no kernel relies
  // on more.
  const size_t start = (used_ + kGapBytes + 63) / 64 * 64 + alignment;
  const size_t end = start + bytes + kGapBytes;
  REPRISE_ASSERT(end <= kMemoryBytes, "the test needs more than {} bytes", kMemoryBytes);
  std::fill(memory_.get() + used_, memory_.get() + end, std::byte{0xFF});
  used_ = end;
  return memory_.get() + start;
}

void CheckedStream::launch(const device::Launch& launch) {
  ++counters_.kernel_launches;
  ASSERT_GT(launch.num_blocks, 0U);
  ASSERT_LE(launch.args.size(), device::kMaxLaunchArgumentBytes);
  const std::span<std::byte> memory = memory_.used();
  const std::vector<std::byte> before(memory.begin(), memory.end());
  for (uint32_t block = launch.num_blocks; block-- > 0;) {
    launch.kernel->cpu(launch.args.data(), {block, block + 1});
  }
  const std::vector<std::byte> first(memory.begin(), memory.end());

  const std::vector<bool> used = covered_bytes(memory, launch.uses, Uses::all);
  const std::vector<bool> written = covered_bytes(memory, launch.uses, Uses::writes);
  const std::vector<bool> read = covered_bytes(memory, launch.uses, Uses::reads);
  // Another content than before, which nothing may read.
  const auto unread = [&](size_t i) { return before[i] ^ std::byte{0x5A}; };
  for (size_t i = 0; i < memory.size(); ++i) {
    memory[i] = read[i] ? before[i] : used[i] ? unread(i) : std::byte{0xFF};
  }
  const uint32_t half = (launch.num_blocks + 1) / 2;
  launch.kernel->cpu(launch.args.data(), {0, half});
  launch.kernel->cpu(launch.args.data(), {half, launch.num_blocks});

  size_t undeclared_writes = 0;
  size_t differences = 0;
  for (size_t i = 0; i < memory.size(); ++i) {
    if (!written[i] && first[i] != before[i]) ++undeclared_writes;
    // A launch may leave parts of what it writes as they are.
    const bool is_left = !read[i] && first[i] == before[i] && memory[i] == unread(i);
    if (written[i] && memory[i] != first[i] && !is_left) ++differences;
  }
  EXPECT_EQ(undeclared_writes, 0U) << launch.kernel->name << " wrote bytes it did not declare";
  EXPECT_EQ(differences, 0U) << launch.kernel->name
                             << " depends on the partition, on memory it did not declare, or on "
                                "the content of what it only writes";
  std::memcpy(memory.data(), first.data(), memory.size());
}

std::string case_name(const ::testing::TestParamInfo<KernelCase>& info) {
  return std::string(isa_name(info.param.isa)) + "_" + std::string(dtype_name(info.param.dtype));
}

Tensor KernelTest::make(const TensorType& type) {
  // Rows of int8 may be ActivationBlocks, which begin with a float32.
  const size_t of_elements = type.dtype == DType::i8 ? sizeof(float) : dtype_bytes(type.dtype);
  const size_t alignment = type.layout.has_codes() ? 1 : of_elements;
  return Tensor::borrow(type, memory_.take(type.bytes(), alignment), executor_);
}

Tensor KernelTest::in_panels(const Tensor& matrix) {
  const Tensor panels = make({DType::bf16, matrix.shape(), column_panels_layout()});
  std::memcpy(panels.data(), matrix.data(), matrix.type().bytes());
  pack_column_panels(
      {panels.data_as<std::byte>(), matrix.type().bytes()}, matrix.size(0), matrix.size(1));
  return panels;
}

void KernelTest::fill_random(const Tensor& tensor, double deviation) {
  std::normal_distribution<double> normal(0.0, deviation);
  const int64_t width = tensor.num_elements() == 0 ? 0 : tensor.size(-1);
  for (const RowIndex& row : all_rows(tensor)) {
    for (int64_t i = 0; i < width; ++i) set_row_element(tensor, normal(random_), row, i);
  }
}

Tensor KernelTest::random(Shape shape, DType type, double deviation) {
  Tensor tensor = make(shape, type);
  fill_random(tensor, deviation);
  return tensor;
}

Tensor KernelTest::random_strided(Shape shape) {
  Tensor tensor;
  if (shape.rank() == 2) {
    const int64_t stride = shape[1] + 7;
    tensor = make({shape[0], stride}).with_layout(shape, {stride, 1}, 3);
  } else {
    const int64_t head_stride = shape[2] + 5;
    const int64_t stride = shape[1] * head_stride + 9;
    tensor = make({shape[0], stride}).with_layout(shape, {stride, head_stride, 1}, 3);
  }
  fill_random(tensor, 1.0);
  return tensor;
}

Tensor KernelTest::ints(const std::vector<int>& values) {
  return ints({static_cast<int64_t>(values.size())}, values);
}

Tensor KernelTest::ints(Shape shape, const std::vector<int>& values) {
  Tensor tensor = make(shape, DType::i32);
  REPRISE_ASSERT(
      tensor.num_elements() == static_cast<int64_t>(values.size()), "{}", shape.to_string());
  std::copy(values.begin(), values.end(), tensor.data_as<int32_t>());
  return tensor;
}

double rounding_error(DType dtype) {
  switch (dtype) {
    case DType::bf16:
      return 0x1p-8;
    case DType::f16:
      return 0x1p-11;
    default:
      return 0x1p-24;
  }
}

double underflow_error(DType dtype) {
  switch (dtype) {
    case DType::bf16:
      return 0x1p-134;
    case DType::f16:
      return 0x1p-25;
    default:
      return 0x1p-150;
  }
}

void expect_close(const Tensor& got, const Tensor& want, double relative, double absolute) {
  ASSERT_EQ(got.shape(), want.shape());
  if (got.num_elements() == 0) return;
  int shown = 0;
  for (const RowIndex& row : all_rows(got)) {
    for (int64_t i = 0; i < got.size(-1); ++i) {
      const double a = row_element(got, row, i);
      const double b = row_element(want, row, i);
      const bool is_close = std::isnan(b)
                                ? std::isnan(a)
                                : a == b || std::abs(a - b) <= absolute + relative * std::abs(b);
      if (is_close) continue;
      ADD_FAILURE() << got.type().to_string() << " at [" << row.i << ", " << row.j << ", " << row.k
                    << "; " << i << "]: got " << a << ", want " << b;
      if (++shown == 5) return;
    }
  }
}

void expect_same_row(const Tensor& got, int64_t got_row, const Tensor& want, int64_t want_row) {
  const int64_t bytes = dense_row_bytes(got);
  ASSERT_EQ(bytes, dense_row_bytes(want));
  EXPECT_EQ(std::memcmp(got.data_as<std::byte>() + got_row * bytes,
                        want.data_as<std::byte>() + want_row * bytes,
                        static_cast<size_t>(bytes)),
            0)
      << "row " << got_row << " against row " << want_row;
}

void expect_same_bits(const Tensor& got, const Tensor& want) {
  ASSERT_EQ(got.type(), want.type());
  EXPECT_EQ(std::memcmp(got.data(), want.data(), got.type().bytes()), 0) << got.type().to_string();
}

}  // namespace reprise::kernels
