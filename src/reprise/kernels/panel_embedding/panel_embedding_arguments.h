#pragma once

#include <cstdint>

#include "reprise/kernels/rows.h"

namespace reprise::kernels {

/// Rows of a table in panels.
struct alignas(16) PanelEmbeddingArguments {
  const void* table;  // [table_rows, tiles.width] of bfloat16, see column_panels.h
  const int32_t* ids;
  void* out;  // dense
  int64_t table_rows;
  RowTiles tiles;  // of out; whole rows
};

}  // namespace reprise::kernels
