#pragma once

#include "reprise/kernels/rows.h"

namespace reprise::kernels {

struct alignas(16) ConcatArguments {
  const void* a;  // rows in a_layout
  const void* b;  // rows in b_layout
  void* out;      // [rows, a_width + b_width], dense
  RowLayout a_layout;
  RowLayout b_layout;
  RowTiles tiles;  // of out, whole rows
  int64_t a_width;
};

}  // namespace reprise::kernels
