#pragma once

#include "reprise/kernels/rows.h"
#include "reprise/tensor/block_panels.h"

namespace reprise::kernels {

/// Rows cut into blocks of kPanelBlock elements, each with a scale of its own.
struct alignas(16) QuantizeBlocksArguments {
  const void* x;       // rows in x_layout, of tiles.width elements: what is quantised or normed
  const void* weight;  // of the norm: [tiles.width]
  ActivationBlock* out;
  RowLayout x_layout;
  RowTiles tiles;
  float epsilon;  // of the norm
};

}  // namespace reprise::kernels
