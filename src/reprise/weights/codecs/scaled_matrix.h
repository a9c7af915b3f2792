#pragma once

#include "reprise/weights/codecs/quantized_matrix.h"
#include "reprise/weights/config/quantization_config.h"

namespace reprise::weights {

/// Finds the matrices that are stored as "M.weight" of eight bits (float8 E4M3 or E5M2, int8)
/// beside a scale: "M.weight_scale" or "M.weight_scale_inv" (checkpoints of method fp8 and
/// compressed-tensors), or "M.SCB" (bitsandbytes; a scale is SCB / 127). An element is code *
/// scale. There is one scale for the matrix, one for each output, for each group of a row, or for
/// each block of config.block_rows x config.block_columns elements. int8 may have zeros:
/// "M.weight_zero_point". int8 with scales of outputs or of groups of 128 stays packed.
/// \throws FileError E_MISSING, E_SHAPE, E_DTYPE when the tensors of a matrix do not fit together
[[nodiscard]] MatrixMap find_scaled_matrices(const WeightSource& source,
                                             const QuantizationConfig& config);

}  // namespace reprise::weights
