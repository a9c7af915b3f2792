#pragma once

#include "reprise/weights/codecs/quantized_matrix.h"

namespace reprise::weights {

/// Finds the matrices of bitsandbytes' four-bit formats (nf4, fp4). A matrix "M.weight" is stored
/// as
///
///   M.weight                              uint8: two codes per byte, the first in the high bits
///   M.weight.quant_state.bitsandbytes__*  JSON: the shape, the size of a block, and more
///   M.weight.quant_map                    float32 [16]: the number that a code stands for
///   M.weight.absmax                       float32 [blocks], or uint8 if these are quantised too:
///   M.weight.nested_absmax                float32 [blocks of blocks]
///   M.weight.nested_quant_map             float32 [256]
///
/// An element is quant_map[code] * absmax[block], where blocks run over all elements of the matrix.
/// Four-bit matrices are dequantised while loading: no kernel reads their blocks.
/// \throws FileError E_MISSING, E_SHAPE, E_DTYPE, E_VALUE when the tensors do not fit together
[[nodiscard]] MatrixMap find_bitsandbytes_matrices(const WeightSource& source);

}  // namespace reprise::weights
