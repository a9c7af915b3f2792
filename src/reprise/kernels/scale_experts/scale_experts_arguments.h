#pragma once

#include <cstdint>

#include "reprise/kernels/rows.h"

namespace reprise::kernels {

struct alignas(16) ScaleExpertsArguments {
  const float* weights;    // [rows, width], dense, like experts and out
  const int32_t* experts;  // less than the number of scales; negative: the result is 0
  const void* scales;      // [experts], dense
  float* out;
  RowTiles tiles;  // of out
};

}  // namespace reprise::kernels
