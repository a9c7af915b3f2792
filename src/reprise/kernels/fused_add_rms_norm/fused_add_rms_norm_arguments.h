#pragma once

#include "reprise/kernels/rows.h"

namespace reprise::kernels {

struct alignas(16) FusedAddRmsNormArguments {
  const void* x;         // rows in x_layout
  const void* residual;  // rows in residual_layout
  const void* weight;    // [width]
  void* normed;          // [rows, width], dense
  void* sum;             // [rows, width], dense
  RowLayout x_layout;
  RowLayout residual_layout;
  RowTiles tiles;
  float epsilon;
};

}  // namespace reprise::kernels
