#pragma once

#include "reprise/kernels/rows.h"

namespace reprise::kernels {

struct alignas(16) SigmoidGateArguments {
  const void* x;     // rows in x_layout
  const void* gate;  // one element per row, gate_stride apart
  void* out;         // [rows, width], dense
  RowLayout x_layout;
  RowTiles tiles;
  int64_t gate_stride;  // elements
};

}  // namespace reprise::kernels
