#include "reprise/models/classifier_head.h"

#include <string>

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
    pooler_bias_ = load_float(parameters, names.pooler, ".bias");
  }
  classifier_ = load_float(parameters, names.classifier, ".weight");
  if (config.is_encoder) classifier_bias_ = load_float(parameters, names.classifier, ".bias");
}

Tensor ClassifierHead::operator()(const Tensor& vectors) const {
  Tensor x = vectors;
  // soft_cap is c * tanh(x / c).
  if (pooler_.defined()) x = ops::soft_cap(ops::linear(x, pooler_, pooler_bias_), 1);
  return ops::linear(x, classifier_, classifier_bias_);
}

}  // namespace reprise::models
