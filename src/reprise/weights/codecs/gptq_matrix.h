#pragma once

#include "reprise/weights/codecs/quantized_matrix.h"
#include "reprise/weights/config/quantization_config.h"

namespace reprise::weights {

/// Finds the matrices of a GPTQ or AWQ checkpoint. A matrix "M.weight" is stored as
///
///   M.qweight  int32, codes of four or eight bits: GPTQ [words, outputs], packed along the depth;
///              AWQ [depth, words], packed along the outputs
///   M.qzeros   int32 [groups, words], packed along the outputs
///   M.scales   [groups, outputs]
///   M.g_idx    int32 [depth], GPTQ only: the group of each element (desc_act orders groups by
///              activation)
///
/// An element is scale * (code - zero). Neighbouring groups of whole 32 elements stay packed.
/// \throws FileError E_MISSING, E_SHAPE, E_DTYPE, E_VALUE when the tensors do not fit together
[[nodiscard]] MatrixMap find_gptq_matrices(const WeightSource& source,
                                           const QuantizationConfig& config);

}  // namespace reprise::weights
