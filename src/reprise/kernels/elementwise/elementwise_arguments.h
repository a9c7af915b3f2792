#pragma once

#include "reprise/kernels/rows.h"
#include "reprise/tensor/op_function.h"

namespace reprise::kernels {

/// out = f(x), element by element.
struct alignas(16) ElementwiseArguments {
  const void* x;  // rows in x_layout
  void* out;      // [rows, width], dense
  RowLayout x_layout;
  RowTiles tiles;
  float parameter;      // of `scale` and `soft_cap`; of `clamp`: the largest result
  float least;          // of `clamp`
  OpFunction function;  // of `activation`
};

}  // namespace reprise::kernels
