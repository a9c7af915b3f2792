#pragma once

#include "reprise/weights/codecs/quantized_matrix.h"

namespace reprise::weights {

/// Finds the matrices of compressed-tensors' format pack-quantized. A matrix "M.weight" is stored
/// as
///
///   M.weight_packed      int32 [outputs, words]: codes of four or eight bits, the first code of a
///                        row in the lowest bits of its first word
///   M.weight_shape       int64 or int32 [2]: outputs, depth
///   M.weight_scale       [outputs, groups]
///   M.weight_zero_point  int32 [words, groups], packed along the outputs; without it zeros are in
///                        the middle of the codes
///   M.weight_g_idx       int32 [depth]: the group of each element, where groups are not neighbours
///
/// An element is scale * (code - zero). Neighbouring groups of whole 32 elements stay packed.
/// \throws FileError E_MISSING, E_SHAPE, E_DTYPE, E_VALUE when the tensors do not fit together
[[nodiscard]] MatrixMap find_packed_matrices(const WeightSource& source);

}  // namespace reprise::weights
