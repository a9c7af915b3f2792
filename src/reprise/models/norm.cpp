#include "reprise/models/norm.h"

#include "reprise/tensor/ops.h"

namespace reprise::models {

Norm::Norm(const weights::ModelConfig& config,
           Parameters& parameters,
           const std::string& module,
           const Arrangement& arrangement)
    : type_(config.norm),
      epsilon_(static_cast<float>(config.norm_eps)),
      weight_(parameters.load(module + ".weight", arrangement)) {
  if (config.norm_bias) bias_ = parameters.load(module + ".bias", arrangement);
}

Tensor Norm::operator()(const Tensor& x) const {
  switch (type_) {
    case weights::NormType::rms_norm:
      return ops::rms_norm(x, weight_, epsilon_);
    case weights::NormType::gemma_rms_norm:
      return ops::gemma_rms_norm(x, weight_, epsilon_);
    case weights::NormType::layer_norm:
      break;
  }
  return ops::layer_norm(x, weight_, bias_, epsilon_);
}

}  // namespace reprise::models
