#pragma once

#include <cstdint>

#include "reprise/kernels/rows.h"

namespace reprise::kernels {

/// Rows of a packed weight as numbers of the kernel's type.
struct alignas(16) BlockEmbeddingArguments {
  const uint8_t* weight;  // begins with a PanelHeader
  const int32_t* ids;
  void* out;  // [tiles.rows, tiles.width]
  int64_t num_columns;
  RowTiles tiles;  // of out; whole rows
};

}  // namespace reprise::kernels
