#pragma once

#include "reprise/kernels/rows.h"

namespace reprise::kernels {

struct alignas(16) CombineExpertsArguments {
  const void* x;         // [rows * top_k, width], rows x_stride apart
  const float* weights;  // [rows, top_k], dense
  void* out;             // [rows, width], dense
  RowTiles tiles;        // of out
  int64_t x_stride;      // elements
  int64_t top_k;
};

}  // namespace reprise::kernels
