#include "reprise/cudagraph/size_grid.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>

#include "reprise/base/error.h"

namespace reprise::cudagraph {
namespace {

// vLLM's performance mode interactivity captures every size up to this one.
constexpr int32_t kDenseInteractiveSizes = 32;

void append_small_sizes(Sizes& sizes, int32_t max, PerformanceMode performance) {
  if (performance == PerformanceMode::interactivity) {
    for (int32_t n = 1; n <= std::min(max, kDenseInteractiveSizes); ++n) sizes.push_back(n);
    return;
  }
  for (int32_t n : {1, 2, 4}) {
    if (n <= max) sizes.push_back(n);
  }
}

}  // namespace

void sort_unique(Sizes& sizes) {
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
}

int32_t round_up(int32_t value, int32_t multiple) {
  const int64_t rounded = (int64_t{value} + multiple - 1) / multiple * multiple;
  return static_cast<int32_t>(std::min<int64_t>(rounded, INT32_MAX));
}

Sizes token_grid(int32_t max, PerformanceMode performance) {
  Sizes sizes;
  append_small_sizes(sizes, max, performance);
  for (int32_t n = 8; n <= std::min(max, 255); n += 8) sizes.push_back(n);
  for (int32_t n = 256; n <= max; n += 16) sizes.push_back(n);
  sort_unique(sizes);
  return sizes;
}

Sizes request_grid(int32_t widest, PerformanceMode performance) {
  Sizes sizes;
  append_small_sizes(sizes, widest, performance);
  for (int32_t n = 8; n <= widest;) {
    sizes.push_back(n);
    n += n < 256 ? 8 : static_cast<int32_t>(std::bit_floor(static_cast<uint32_t>(n)) / 16);
  }
  if (widest >= 1) sizes.push_back(widest);
  sort_unique(sizes);
  return sizes;
}

Sizes candidate_grid(int32_t max) {
  constexpr int32_t kStepsPerDoubling = 16;
  Sizes sizes;
  for (int32_t n = 1; n <= max;) {
    sizes.push_back(n);
    n += std::max(
        1, static_cast<int32_t>(std::bit_floor(static_cast<uint32_t>(n))) / kStepsPerDoubling);
  }
  if (max >= 1) sizes.push_back(max);
  sort_unique(sizes);
  return sizes;
}

int32_t automatic_max(const CaptureSizeInputs& in) {
  const int64_t twice = int64_t{in.max_num_seqs} * in.uniform_decode_query_len * 2;
  return static_cast<int32_t>(std::min<int64_t>(twice, in.default_max_capture_size));
}

void drop_indivisible(Sizes& sizes,
                      const CaptureSizeInputs& in,
                      std::vector<std::string>& warnings) {
  if (!in.sequence_parallelism || in.tensor_parallel_size <= 1) return;
  Sizes removed;
  for (int32_t size : sizes) {
    if (size % in.tensor_parallel_size != 0) removed.push_back(size);
  }
  if (removed.empty()) return;
  std::erase_if(sizes, [&](int32_t size) { return size % in.tensor_parallel_size != 0; });
  warnings.push_back(
      fmt::format("sequence parallelism needs capture sizes divisible by the tensor parallel size "
                  "{}: removed {}",
                  in.tensor_parallel_size,
                  fmt::join(removed, ", ")));
}

[[noreturn]] void throw_inconsistent(int32_t largest, int32_t max) {
  throw InvalidArgument(fmt::format(
      "cudagraph_capture_sizes and max_cudagraph_capture_size are inconsistent: the largest usable "
      "size is {}, the maximum is {}; make them equal or drop one",
      largest,
      max));
}

}  // namespace reprise::cudagraph
