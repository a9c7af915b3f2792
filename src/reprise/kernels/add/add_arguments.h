#pragma once

#include "reprise/kernels/rows.h"

namespace reprise::kernels {

struct alignas(16) AddArguments {
  const void* a;
  const void* b;
  void* out;  // [rows, width], dense
  RowLayout a_layout;
  RowLayout b_layout;
  RowTiles tiles;
};

}  // namespace reprise::kernels
