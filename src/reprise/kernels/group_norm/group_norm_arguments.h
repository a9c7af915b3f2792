#pragma once

#include "reprise/kernels/rows.h"
#include "reprise/tensor/op_function.h"

namespace reprise::kernels {

struct alignas(16) GroupNormArguments {
  const void* x;       // rows in x_layout
  const void* weight;  // [width]
  void* out;           // [rows, width], dense
  RowLayout x_layout;
  RowTiles tiles;  // of whole rows
  int64_t group_size;
  float epsilon;
  OpFunction function;
};

}  // namespace reprise::kernels
