#include "reprise/models/classifier_head.h"

#include <string>

#include "reprise/models/dense_head.h"
#include "reprise/tensor/ops.h"

namespace reprise::models {
namespace {

Tensor load_float(Parameters& parameters, std::string_view module, std::string_view part) {
  return parameters.load(std::string(module).append(part), {.dtype = DType::f32});
}

}  // namespace

ClassifierHead::ClassifierHead(const weights::ModelConfig& config,
                               const weights::DecoderTensors& names,
                               Parameters& parameters) {
  const weights::ClassifierConfig& classifier = *config.classifier;
  if (!classifier.from_tokens.empty()) {
    const std::string_view module = config.tie_word_embeddings ? names.embedding : names.lm_head;
    classifier_ = parameters.load(
        std::string(module).append(".weight"),
        {.rows = {classifier.from_token_ids.begin(), classifier.from_token_ids.end()},
         .dtype = DType::f32,
         .name = std::string(names.classifier).append(".weight")});
    return;
  }
  if (!names.pooler.empty()) {
    pooler_ = load_float(parameters, names.pooler, ".weight");
    if (classifier.pooler_bias) pooler_bias_ = load_float(parameters, names.pooler, ".bias");
    pooler_activation_ = classifier.pooler_activation;
  }
  if (!names.pooler_norm.empty()) {
    pooler_norm_ = load_float(parameters, names.pooler_norm, ".weight");
    if (config.norm_bias) pooler_norm_bias_ = load_float(parameters, names.pooler_norm, ".bias");
    norm_eps_ = static_cast<float>(config.norm_eps);
  }
  classifier_ = load_float(parameters, names.classifier, ".weight");
  if (names.classifier_has_bias()) {
    classifier_bias_ = load_float(parameters, names.classifier, ".bias");
  }
}

Tensor ClassifierHead::operator()(const Tensor& vectors) const {
  Tensor x = vectors;
  if (pooler_.defined()) {
    x = activate_dense(pooler_activation_, ops::linear(x, pooler_, pooler_bias_));
  }
  if (pooler_norm_.defined()) x = ops::layer_norm(x, pooler_norm_, pooler_norm_bias_, norm_eps_);
  return ops::linear(x, classifier_, classifier_bias_);
}

}  // namespace reprise::models
