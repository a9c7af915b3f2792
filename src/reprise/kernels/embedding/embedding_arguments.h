#pragma once

#include <cstdint>

#include "reprise/kernels/rows.h"

namespace reprise::kernels {

/// Rows of a table in panels as numbers of the kernel's type. An id outside of the table gives
/// zeros.
struct alignas(16) EmbeddingArguments {
  const uint8_t* table;  // in the layout of the kernel: column, int8 or block panels
  const int32_t* ids;
  void* out;  // [tiles.rows, tiles.width], dense
  int64_t table_rows;
  RowTiles tiles;  // of out; whole rows
};

}  // namespace reprise::kernels
