#pragma once

#include <cstdint>

namespace reprise::kernels {

/// The addresses of the rows of a strided tensor of rank 1 to 3. Row r begins at (r / inner) *
/// outer_stride + (r % inner) * inner_stride, in elements. The rows are dense.
struct RowLayout {
  int64_t inner;  // at least 1
  int64_t outer_stride;
  int64_t inner_stride;
};

static constexpr int64_t row_offset(const RowLayout& layout, int64_t row) {
  return row / layout.inner * layout.outer_stride + row % layout.inner * layout.inner_stride;
}

/// A grid over rows of `width` elements. Narrow rows share a block, and wide rows are cut.
struct RowTiles {
  int64_t rows;
  int64_t width;
  int64_t rows_per_block;
  int64_t columns_per_block;
};

static constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
static constexpr int64_t min_of(int64_t a, int64_t b) { return a < b ? a : b; }
static constexpr int64_t max_of(int64_t a, int64_t b) { return a > b ? a : b; }

/// The part of a RowTiles grid that one block covers.
struct RowTile {
  int64_t row_begin;
  int64_t row_end;
  int64_t column_begin;
  int64_t column_end;
};

static constexpr RowTile row_tile(const RowTiles& tiles, uint32_t block) {
  const int64_t column_tiles = ceil_div(tiles.width, tiles.columns_per_block);
  const int64_t row = block / column_tiles * tiles.rows_per_block;
  const int64_t column = block % column_tiles * tiles.columns_per_block;
  return {row,
          min_of(row + tiles.rows_per_block, tiles.rows),
          column,
          min_of(column + tiles.columns_per_block, tiles.width)};
}

}  // namespace reprise::kernels
