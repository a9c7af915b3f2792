#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "not_yet.h"

/// Lab 05, starter: see ../05_capture_sizes.md.
namespace course {

/// 1, 2, 4, then steps of 8 below 256, then steps of 16, up to `max_size`.
[[nodiscard]] inline std::vector<int32_t> capture_ladder(int32_t) { not_yet("capture_ladder"); }

/// The size of the graph that a batch of `num_tokens` runs; nullopt above the largest.
[[nodiscard]] inline std::optional<int32_t> rung_of(std::span<const int32_t>, int32_t) {
  not_yet("rung_of");
}

/// Rows that are computed for nothing, over all batches. Batches above the ladder waste nothing,
/// because they run eagerly.
[[nodiscard]] inline int64_t wasted_rows(std::span<const int32_t>, std::span<const int32_t>) {
  not_yet("wasted_rows");
}

}  // namespace course
