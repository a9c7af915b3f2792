#pragma once

#include <cstdint>

#include "reprise/tensor/codecs.h"

/// The order of a matrix in int8 panels (PanelFormat::int8_rows): signed codes of eight bits
/// with one float32 scale for each output, for activations with one scale for each token. Sixteen
/// outputs ("columns": rows of a weight) are one panel. In a panel, fours of neighbouring elements
/// of all sixteen lie side by side, as the instructions for products of bytes (vpdpbusd, AMX) read
/// them. The scales and the sums of the codes of the sixteen follow:
///
///     [columns / 16] { int8 [depth / 4][16][4], float32 scales[16], int32 sums[16] }
///
/// An element is its code times the scale of its column. Sums of products are exact in int32 over
/// the whole depth, so no instruction set and no batch changes them.
namespace reprise {

/// Bytes of a column that are not codes.
inline constexpr int64_t kInt8TailBytes = panel_layout(PanelFormat::int8_rows).tail_bytes;
/// The number of elements in a row of an AMX tile; the depth is a multiple of it.
inline constexpr int64_t kInt8DepthStep = panel_group_elements(PanelFormat::int8_rows);
/// With a larger depth, sums of products of -128 and -128 could overflow: 2^17 of them are 2^31.
inline constexpr int64_t kMaxInt8Depth = (int64_t{1} << 17) - kInt8DepthStep;

/// Whether a matrix can be stored in panels. Then both halves of it are whole panels too, for
/// example gates and ups.
[[nodiscard]] static constexpr bool fits_int8_panels(int64_t columns, int64_t depth) {
  return columns > 0 && columns % (2 * kPanelColumns) == 0 && depth > 0 &&
         depth % kInt8DepthStep == 0 && depth <= kMaxInt8Depth;
}

/// The offset of element `i` of a column, in bytes.
[[nodiscard]] static constexpr int64_t int8_panel_offset(int64_t column, int64_t i, int64_t depth) {
  return column / kPanelColumns * kPanelColumns * (depth + kInt8TailBytes) +
         i / 4 * 4 * kPanelColumns + column % kPanelColumns * 4 + i % 4;
}
/// The offsets of a column's scale and of the sum of its codes, in bytes.
[[nodiscard]] static constexpr int64_t int8_scale_offset(int64_t column, int64_t depth) {
  return int8_panel_offset(column / kPanelColumns * kPanelColumns, depth, depth) +
         column % kPanelColumns * 4;
}
[[nodiscard]] static constexpr int64_t int8_sum_offset(int64_t column, int64_t depth) {
  return int8_scale_offset(column, depth) + 4 * kPanelColumns;
}

}  // namespace reprise
