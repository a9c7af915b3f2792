#pragma once

#include "reprise/kernels/rows.h"
#include "reprise/tensor/op_function.h"

namespace reprise::kernels {

/// The last, the first or the mean of the rows of each request.
struct alignas(16) PoolRowsArguments {
  const void* x;            // [num_tokens, width], rows x_stride apart
  const int32_t* ends;      // [rows]: the last row of each request, ascending
  const int32_t* num_rows;  // [1]: the number of valid entries of `ends`, read when the kernel runs
  float* out;               // [rows, width], dense
  RowTiles tiles;           // of out
  int64_t x_stride;         // elements
  int64_t x_rows;
  OpFunction function;
};

}  // namespace reprise::kernels
