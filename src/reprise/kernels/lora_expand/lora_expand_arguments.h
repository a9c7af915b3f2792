#pragma once

#include "reprise/kernels/rows.h"

namespace reprise::kernels {

/// out[r] = y[r] + shrunk[r] @ b[slots[r]], or y[r] where the slot is negative. out may be y.
struct alignas(16) LoraExpandArguments {
  const void* y;         // [rows, width], rows y_stride apart
  const float* shrunk;   // [rows, modules * rank], dense
  const void* b;         // [num_slots, rank, width], dense
  const int32_t* ends;   // [modules]: the columns of each module end there
  const int32_t* slots;  // [>= rows], read when the kernel runs
  void* out;             // [rows, width], dense
  RowTiles tiles;        // of out
  int64_t y_stride;      // elements
  int64_t modules;
  int64_t rank;
};

}  // namespace reprise::kernels
