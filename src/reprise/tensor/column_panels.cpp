#include "reprise/tensor/column_panels.h"

#include <cstring>
#include <vector>

#include "reprise/base/assert.h"

namespace reprise {
namespace {

// A pair of elements, moved as one number.
using Pair = uint32_t;
constexpr int64_t kPairBytes = sizeof(Pair);
constexpr int64_t kLineBytes = kPanelColumns * kPairBytes;  // a pair of each column
constexpr int kSquare = 4;

// Writes the next pairs of four columns, which are `row_bytes` apart, as lines of four. Compilers
// turn this into a transposition in registers.
template <int kPairs>
void transpose(const std::byte* rows, int64_t row_bytes, std::byte* line) {
  Pair square[kSquare][kPairs];
  for (int c = 0; c < kSquare; ++c) {
    std::memcpy(square[c], rows + c * row_bytes, sizeof square[0]);
  }
  for (int pair = 0; pair < kPairs; ++pair, line += kLineBytes) {
    const Pair of_columns[kSquare] = {
        square[0][pair], square[1][pair], square[2][pair], square[3][pair]};
    std::memcpy(line, of_columns, sizeof of_columns);
  }
}

void pack_panel(const std::byte* rows, int64_t pairs, std::byte* panel) {
  const int64_t row_bytes = pairs * kPairBytes;
  for (int64_t column = 0; column < kPanelColumns; column += kSquare) {
    const std::byte* from = rows + column * row_bytes;
    std::byte* to = panel + column * kPairBytes;
    int64_t pair = 0;
    for (; pair + kSquare <= pairs; pair += kSquare) {
      transpose<kSquare>(from + pair * kPairBytes, row_bytes, to + pair * kLineBytes);
    }
    for (; pair < pairs; ++pair) {
      transpose<1>(from + pair * kPairBytes, row_bytes, to + pair * kLineBytes);
    }
  }
}

}  // namespace

void pack_column_panels(std::span<const std::byte> rows,
                        std::span<std::byte> panels,
                        int64_t columns,
                        int64_t depth) {
  REPRISE_ASSERT(fits_column_panels(columns, depth) && rows.size() == panels.size() &&
                     rows.size() == static_cast<size_t>(columns * depth) * sizeof(uint16_t),
                 "{} bytes do not fit panels of {} x {} elements",
                 rows.size(),
                 columns,
                 depth);
  const int64_t column_bytes = depth / 2 * kPairBytes;
  for (int64_t column = 0; column < columns; column += kPanelColumns) {
    const int64_t at = column * column_bytes;
    pack_panel(rows.data() + at, depth / 2, panels.data() + at);
  }
}

void pack_column_panels(std::span<std::byte> matrix, int64_t columns, int64_t depth) {
  const auto panel_bytes = static_cast<size_t>(kPanelColumns * depth) * sizeof(uint16_t);
  std::vector<std::byte> rows(panel_bytes);
  for (int64_t column = 0; column < columns; column += kPanelColumns) {
    const auto panel =
        matrix.subspan(static_cast<size_t>(column / kPanelColumns) * panel_bytes, panel_bytes);
    std::memcpy(rows.data(), panel.data(), panel_bytes);
    pack_column_panels(rows, panel, kPanelColumns, depth);
  }
}

}  // namespace reprise
