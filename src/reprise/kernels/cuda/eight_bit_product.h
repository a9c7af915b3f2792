#pragma once

#include "reprise/kernels/cuda/gemm_library.h"
#include "reprise/kernels/cuda/packed_call.h"
#include "reprise/kernels/cuda/packed_expand.h"
#include "reprise/kernels/device_executor.h"

namespace reprise::kernels::cuda {

/// The number of rows in a result of `rows` rows that the library can always store.
constexpr int64_t rows_with_room(int64_t rows) {
  constexpr int64_t kStep = GemmLibrary::kGroupedRows;
  return (rows + kStep - 1) / kStep * kStep;
}

/// out = x weight^T + bias for many rows, where the library multiplies codes of eight bits with
/// codes of eight bits. Panels become rows of codes, in pieces: `piece_bytes` bound the codes of a
/// piece, and twice its sums where a kernel finishes them.
///
/// Int8 meets the int8 rows of the call; sums are exact, so results have the bits of the project's
/// own kernels. Float8 E4M3 meets x as float8 E4M3, with a scale for each row, or for each 128
/// elements of it where the weight has such groups. The library's sums are float32. It scales them
/// itself where it can (GPUs of compute capability 9.0); otherwise a kernel scales and stores them.
///
/// All memory is of the executor's pool. Returns false and launches nothing where the library does
/// not compute the product on this GPU, for other codecs, and for float8 if activations must stay
/// elements (DeviceExecutor::keep_activations).
/// \pre the call has no residual; `out` has the rows of the weight as columns. With groups the
/// library multiplies rows_with_room() rows; if `out` has fewer, its rows are copied from memory
/// that has them, and if it has them, those behind the rows of x are undefined afterwards
bool multiply_in_eight_bits(DeviceExecutor& executor,
                            GemmLibrary& library,
                            const PackedCall& call,
                            int64_t piece_bytes = kExpandedBytes);

/// Whether it would compute an ordinary product with a weight of this codec and type: one whose
/// sizes are multiples of 128. \pre nothing is being captured
[[nodiscard]] bool can_multiply_in_eight_bits(DeviceExecutor& executor,
                                              GemmLibrary& library,
                                              PanelFormat codec,
                                              DType dtype);

}  // namespace reprise::kernels::cuda
