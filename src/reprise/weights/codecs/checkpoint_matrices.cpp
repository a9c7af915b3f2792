#include "reprise/weights/codecs/checkpoint_matrices.h"

#include "reprise/weights/codecs/bitsandbytes_matrix.h"
#include "reprise/weights/codecs/gptq_matrix.h"
#include "reprise/weights/codecs/nvfp4_matrix.h"
#include "reprise/weights/codecs/packed_matrix.h"
#include "reprise/weights/codecs/scaled_matrix.h"

namespace reprise::weights {

MatrixMap find_checkpoint_matrices(const WeightSource& source, const QuantizationConfig& config) {
  switch (config.method) {
    case QuantizationMethod::none:
      return {};
    case QuantizationMethod::gptq:
    case QuantizationMethod::awq:
      return find_gptq_matrices(source, config);
    case QuantizationMethod::fp8:
      return find_scaled_matrices(source, config);
    case QuantizationMethod::modelopt: {
      MatrixMap matrices = find_scaled_matrices(source, config);
      matrices.merge(find_nvfp4_matrices(source));
      return matrices;
    }
    case QuantizationMethod::compressed_tensors: {
      MatrixMap matrices = find_scaled_matrices(source, config);
      matrices.merge(find_packed_matrices(source));
      matrices.merge(find_nvfp4_matrices(source));
      return matrices;
    }
    case QuantizationMethod::bitsandbytes: {
      MatrixMap matrices = find_scaled_matrices(source, config);
      matrices.merge(find_bitsandbytes_matrices(source));
      return matrices;
    }
  }
  return {};
}

}  // namespace reprise::weights
