#pragma once

#include <cstdint>

#include "reprise/kernels/rows.h"

namespace reprise::kernels {

/// Rows of a table in int8 panels as numbers of the kernel's type.
struct alignas(16) Int8EmbeddingArguments {
  const int8_t* table;
  const int32_t* ids;
  void* out;  // [tiles.rows, tiles.width]
  int64_t table_rows;
  RowTiles tiles;  // of out; whole rows
};

}  // namespace reprise::kernels
