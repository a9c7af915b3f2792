#pragma once

#include "reprise/weights/codecs/quantized_matrix.h"
#include "reprise/weights/config/quantization_config.h"
#include "reprise/weights/weight_source.h"

namespace reprise::weights {

/// The quantised matrices of a checkpoint, by name, each in the form in which the checkpoint's
/// method stores it. They read from `source`. \throws FileError for a matrix whose tensors do not
/// fit together
[[nodiscard]] MatrixMap find_checkpoint_matrices(const WeightSource& source,
                                                 const QuantizationConfig& config);

}  // namespace reprise::weights
