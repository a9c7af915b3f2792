#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

/// Lab 05, solution: see ../05_capture_sizes.md.
namespace course {

/// 1, 2, 4, then steps of 8 below 256, then steps of 16, up to `max_size`.
[[nodiscard]] inline std::vector<int32_t> capture_ladder(int32_t max_size) {
  std::vector<int32_t> sizes;
  for (const int32_t size : {1, 2, 4}) {
    if (size <= max_size) sizes.push_back(size);
  }
  for (int32_t size = 8; size <= max_size; size += size < 256 ? 8 : 16) sizes.push_back(size);
  return sizes;
}

/// The size of the graph that a batch of `num_tokens` runs; nullopt above the largest.
[[nodiscard]] inline std::optional<int32_t> rung_of(std::span<const int32_t> ladder,
                                                    int32_t num_tokens) {
  const auto found = std::lower_bound(ladder.begin(), ladder.end(), num_tokens);
  return found == ladder.end() ? std::nullopt : std::optional(*found);
}

/// Rows that are computed for nothing, over all batches. Batches above the ladder waste nothing,
/// because they run eagerly.
[[nodiscard]] inline int64_t wasted_rows(std::span<const int32_t> ladder,
                                         std::span<const int32_t> batches) {
  int64_t wasted = 0;
  for (const int32_t batch : batches) {
    if (const std::optional<int32_t> rung = rung_of(ladder, batch)) wasted += *rung - batch;
  }
  return wasted;
}

}  // namespace course
