#pragma once

#include "reprise/kernels/rows.h"

namespace reprise::kernels {

struct alignas(16) SiluAndMulArguments {
  const void* x;  // rows of 2 * width elements: gate, then up
  void* out;      // [rows, width], dense
  RowLayout x_layout;
  RowTiles tiles;  // of out
};

}  // namespace reprise::kernels
