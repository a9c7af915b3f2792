#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "reprise/tensor/codecs.h"

/// The order of a matrix of bfloat16 in column panels. Sixteen outputs ("columns": rows of a
/// weight) are one panel, in which pairs of neighbouring elements of all sixteen lie side by side:
///
///     [columns / 16][depth / 2][16][2]
///
/// A vector register then holds the pairs of 16 outputs, as the instructions for bfloat16 products
/// (vdpbf16ps, AMX) read them, so sums need no step across lanes. The matrix has as many bytes as
/// in row-major order.
namespace reprise {

/// Whether a matrix can be stored in panels.
[[nodiscard]] constexpr bool fits_column_panels(int64_t columns, int64_t depth) {
  return columns > 0 && columns % kPanelColumns == 0 && depth > 0 && depth % 2 == 0;
}

/// The position of element `i` of a column, in elements.
[[nodiscard]] constexpr int64_t column_panel_offset(int64_t column, int64_t i, int64_t depth) {
  return column / kPanelColumns * kPanelColumns * depth + i / 2 * 2 * kPanelColumns +
         column % kPanelColumns * 2 + i % 2;
}

/// Writes the panels of a row-major matrix of 16-bit elements. The two ranges must not overlap.
/// \pre fits_column_panels(columns, depth), and both have that many elements
void pack_column_panels(std::span<const std::byte> rows,
                        std::span<std::byte> panels,
                        int64_t columns,
                        int64_t depth);
/// The same in place. Needs memory for one panel. \pre fits_column_panels(columns, depth), and the
/// matrix has that many elements
void pack_column_panels(std::span<std::byte> matrix, int64_t columns, int64_t depth);

}  // namespace reprise
