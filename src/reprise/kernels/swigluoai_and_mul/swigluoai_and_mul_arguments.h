#pragma once

#include "reprise/kernels/rows.h"

namespace reprise::kernels {

struct alignas(16) SwigluoaiAndMulArguments {
  const void* x;  // rows of 2 * width elements: gate, then up
  void* out;      // [rows, width], dense
  RowLayout x_layout;
  RowTiles tiles;  // of out
  float limit;
};

/// All published models have this value.
inline constexpr float kSwigluoaiAlpha = 1.702F;

}  // namespace reprise::kernels
