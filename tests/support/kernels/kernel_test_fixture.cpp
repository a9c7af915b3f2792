#include "tests/support/kernels/kernel_test_fixture.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "reprise/tensor/column_panels.h"

namespace reprise::kernels {
namespace {

constexpr size_t kGapBytes = 64;
constexpr size_t kMemoryBytes = size_t{64} << 20;

// A range of bytes that the same uses cover.
struct Segment {
  size_t begin = 0;
  size_t end = 0;
  bool is_used = false;
  bool is_read = false;
  bool is_written = false;

  [[nodiscard]] size_t bytes() const { return end - begin; }
};

// Divides the memory where a use begins or ends. Most of it is in the few segments without a use.
std::vector<Segment> segments_of(std::span<const std::byte> memory,
                                 std::span<const device::BufferUse> uses) {
  std::vector<Segment> used;
  std::vector<size_t> bounds = {0, memory.size()};
  for (const device::BufferUse& use : uses) {
    const auto begin = static_cast<const std::byte*>(use.data) - memory.data();
    const bool is_inside = begin >= 0 && static_cast<size_t>(begin) + use.bytes <= memory.size();
    EXPECT_TRUE(is_inside) << "a use lies outside the memory of the test";
    if (!is_inside) continue;
    used.push_back({.begin = static_cast<size_t>(begin),
                    .end = static_cast<size_t>(begin) + use.bytes,
                    .is_read = use.access != device::BufferUse::Access::write,
                    .is_written = use.writes()});
    bounds.push_back(used.back().begin);
    bounds.push_back(used.back().end);
  }
  std::sort(bounds.begin(), bounds.end());
  bounds.erase(std::unique(bounds.begin(), bounds.end()), bounds.end());
  std::vector<Segment> segments;
  for (size_t i = 0; i + 1 < bounds.size(); ++i) {
    Segment segment{.begin = bounds[i], .end = bounds[i + 1]};
    for (const Segment& use : used) {
      if (use.begin > segment.begin || use.end < segment.end) continue;
      segment.is_used = true;
      segment.is_read |= use.is_read;
      segment.is_written |= use.is_written;
    }
    segments.push_back(segment);
  }
  return segments;
}

// A byte that differs from `before`, for memory that no kernel may read.
std::byte unread(std::byte before) { return before ^ std::byte{0x5A}; }

using Bytes = std::span<const std::byte>;

bool are_equal(const Segment& segment, Bytes a, Bytes b) {
  return std::memcmp(a.data() + segment.begin, b.data() + segment.begin, segment.bytes()) == 0;
}

size_t count_undeclared_writes(const Segment& segment, Bytes before, Bytes after) {
  if (segment.is_written || are_equal(segment, before, after)) return 0;
  size_t count = 0;
  for (size_t i = segment.begin; i < segment.end; ++i) count += before[i] != after[i] ? 1 : 0;
  return count;
}

// Counts the bytes in which the results of the first and the second run differ.
size_t count_differences(const Segment& segment, Bytes before, Bytes first, Bytes second) {
  if (!segment.is_written || are_equal(segment, first, second)) return 0;
  size_t count = 0;
  for (size_t i = segment.begin; i < segment.end; ++i) {
    // A launch may leave parts of its results unwritten.
    const bool is_left =
        !segment.is_read && first[i] == before[i] && second[i] == unread(before[i]);
    if (second[i] != first[i] && !is_left) ++count;
  }
  return count;
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
  before_.assign(memory.begin(), memory.end());
  for (uint32_t block = launch.num_blocks; block-- > 0;) {
    launch.kernel->cpu(launch.args.data(), {block, block + 1});
  }
  first_.assign(memory.begin(), memory.end());

  const std::vector<Segment> segments = segments_of(memory, launch.uses);
  for (const Segment& segment : segments) {
    const auto from = before_.begin() + static_cast<ptrdiff_t>(segment.begin);
    const auto to = memory.begin() + static_cast<ptrdiff_t>(segment.begin);
    const auto bytes = static_cast<ptrdiff_t>(segment.bytes());
    if (segment.is_read) {
      std::copy_n(from, bytes, to);
    } else if (segment.is_used) {
      std::transform(from, from + bytes, to, unread);
    } else {
      std::fill_n(to, bytes, std::byte{0xFF});
    }
  }
  const uint32_t half = (launch.num_blocks + 1) / 2;
  launch.kernel->cpu(launch.args.data(), {0, half});
  launch.kernel->cpu(launch.args.data(), {half, launch.num_blocks});

  size_t undeclared_writes = 0;
  size_t differences = 0;
  for (const Segment& segment : segments) {
    undeclared_writes += count_undeclared_writes(segment, before_, first_);
    differences += count_differences(segment, before_, first_, memory);
  }
  EXPECT_EQ(undeclared_writes, 0U) << launch.kernel->name << " wrote bytes it did not declare";
  EXPECT_EQ(differences, 0U) << launch.kernel->name
                             << " depends on the partition, on memory it did not declare, or on "
                                "the content of what it only writes";
  std::memcpy(memory.data(), first_.data(), memory.size());
}

std::string case_name(const ::testing::TestParamInfo<KernelCase>& info) {
  return std::string(isa_name(info.param.isa)) + "_" + std::string(dtype_name(info.param.dtype));
}

Tensor KernelTest::make(const TensorType& type) {
  // Rows of int8 may be ActivationBlocks, each of which begins with a float32.
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
  fill_normal(tensor, random_, deviation);
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
