#pragma once

#include "reprise/kernels/rows.h"
#include "reprise/tensor/op_function.h"

namespace reprise::kernels {

struct alignas(16) MulGateArguments {
  const void* x;     // rows in x_layout
  const void* gate;  // rows in gate_layout
  void* out;         // [rows, width], dense
  RowLayout x_layout;
  RowLayout gate_layout;
  RowTiles tiles;
  OpFunction function;
};

}  // namespace reprise::kernels
