#pragma once

#include "reprise/weights/codecs/quantized_matrix.h"

namespace reprise::weights {

/// The matrices of NVFP4 checkpoints. 16 neighbouring elements of a row share a float8 E4M3 scale,
/// and all elements share a float32 number. A matrix M.weight is stored in one of two ways:
///
///   compressed-tensors                       ModelOpt
///   M.weight_packed        uint8             M.weight          uint8 [outputs, depth / 2]
///   M.weight_scale         float8 E4M3       M.weight_scale    float8 E4M3 [outputs, depth / 16]
///   M.weight_global_scale  float32 [1]       M.weight_scale_2  float32 []
///   M.input_global_scale   float32 [1]       M.input_scale     float32 []
///
/// A byte has two float4 E2M1 numbers, the first one in its low half. An element is number *
/// weight_scale / weight_global_scale, or number * weight_scale * weight_scale_2. Scales of inputs
/// are not used: activations are quantised in blocks of 32 with eight bits while the model runs.
///
/// Sources: compressed_tensors.compressors (nvfp4-pack-quantized), vLLM's
/// ModelOptNvFp4LinearMethod.
/// \throws FileError E_MISSING, E_SHAPE, E_DTYPE, E_VALUE when the tensors do not fit together
[[nodiscard]] MatrixMap find_nvfp4_matrices(const WeightSource& source);

/// The suffix of the tensor that only an NVFP4 matrix of compressed-tensors has.
inline constexpr std::string_view kNvfp4GlobalScale = ".weight_global_scale";

}  // namespace reprise::weights
