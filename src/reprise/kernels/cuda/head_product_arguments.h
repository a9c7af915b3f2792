#pragma once

#include <cstdint>

#include "reprise/kernels/linear/linear_arguments.h"

namespace reprise::kernels::cuda {

/// The tile of a block that multiplies rows with the matrix of one head. Its warps divide rows and
/// columns into groups; the whole depth passes through shared memory, 64 elements at a time.
struct HeadTile {
  int sets;   // of sixteen rows, of a warp
  int pairs;  // of two times eight columns, of a warp
  int row_groups;
  int column_groups;
  int slots;  // of shared memory

  static constexpr int kDepth = 64;  // of a slot
  [[nodiscard]] constexpr int rows() const { return 16 * sets * row_groups; }
  [[nodiscard]] constexpr int columns() const { return 16 * pairs * column_groups; }
  [[nodiscard]] constexpr int threads() const { return 32 * row_groups * column_groups; }
  [[nodiscard]] constexpr uint32_t shared_bytes() const {
    return static_cast<uint32_t>(slots * (rows() + columns()) * kDepth * 2);
  }
};
/// For few rows: narrow, for many blocks, and with a depth of 512 in flight at once.
inline constexpr HeadTile kNarrowHeadTile = {1, 1, 1, 2, 8};
/// For more than kMostNarrowHeadRows rows.
inline constexpr HeadTile kWideHeadTile = {2, 2, 2, 2, 4};
/// With two sets of narrow rows, the second one finds the weights in the second-level cache.
inline constexpr int kMostNarrowHeadRows = 32;
static_assert(kNarrowHeadTile.shared_bytes() == 48 * 1024 &&
              kWideHeadTile.shared_bytes() == 64 * 1024);

}  // namespace reprise::kernels::cuda
