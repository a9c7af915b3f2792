#pragma once

#include <cstdint>

#include "reprise/kernels/rows.h"

namespace reprise::kernels {

/// Widths and strides are in bytes, so types do not matter.
struct alignas(16) GatherRowsArguments {
  const void* x;  // x_rows rows, which start x_stride bytes apart
  const int32_t* indices;
  void* out;  // dense
  int64_t x_rows;
  int64_t x_stride;
  RowTiles tiles;  // of out, width in bytes
};

}  // namespace reprise::kernels
