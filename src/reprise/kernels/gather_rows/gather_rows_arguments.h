#pragma once

#include <cstdint>

#include "reprise/kernels/rows.h"

namespace reprise::kernels {

/// Types do not matter: widths and strides are bytes.
struct alignas(16) GatherRowsArguments {
  const void* x;  // x_rows rows, x_stride bytes apart
  const int32_t* indices;
  void* out;  // dense
  int64_t x_rows;
  int64_t x_stride;
  RowTiles tiles;  // of out, width in bytes
};

}  // namespace reprise::kernels
