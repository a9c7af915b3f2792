#pragma once

#include <cstdint>

#include "reprise/kernels/rows.h"

namespace reprise::kernels {

struct alignas(16) LayerNormArguments {
  const void* x;       // rows in x_layout
  const void* weight;  // [width]
  const void* bias;    // [width], or nullptr
  void* out;           // [rows, width], dense
  RowLayout x_layout;
  RowTiles tiles;
  float epsilon;
};

}  // namespace reprise::kernels
