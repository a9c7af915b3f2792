#pragma once

#include "reprise/kernels/rows.h"

namespace reprise::kernels {

struct alignas(16) SigmoidGateArguments {
  const void* x;     // rows in x_layout
  const void* gate;  // rows of one element in gate_layout
  void* out;         // [rows, width], dense
  RowLayout x_layout;
  RowLayout gate_layout;
  RowTiles tiles;
};

}  // namespace reprise::kernels
