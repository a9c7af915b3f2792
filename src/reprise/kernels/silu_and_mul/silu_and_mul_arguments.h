#pragma once

#include "reprise/kernels/rows.h"
#include "reprise/tensor/op_function.h"

namespace reprise::kernels {

/// Of the kernels silu_and_mul and activation_and_mul.
struct alignas(16) SiluAndMulArguments {
  const void* x;  // rows of 2 * width elements: gate, then up
  void* out;      // [rows, width], dense
  RowLayout x_layout;
  RowTiles tiles;       // of out
  OpFunction function;  // of the gate; silu_and_mul does not read it
};

}  // namespace reprise::kernels
