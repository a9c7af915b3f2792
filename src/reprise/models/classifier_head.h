#pragma once

#include "reprise/models/parameters.h"
#include "reprise/weights/config/decoder_tensors.h"
#include "reprise/weights/config/model_config.h"

namespace reprise::models {

/// Scores of labels from the vectors of texts, in float32 whatever the model's type is: a
/// projection, and in an encoder a layer before it, which may have a norm.
class ClassifierHead {
 public:
  /// \pre config.classifier
  ClassifierHead(const weights::ModelConfig& config,
                 const weights::DecoderTensors& names,
                 Parameters& parameters);

  [[nodiscard]] Tensor operator()(const Tensor& vectors) const;  // float32[num_texts, hidden_size]

 private:
  Tensor pooler_;  // undefined: there is none
  Tensor pooler_bias_;
  weights::DenseActivation pooler_activation_ = weights::DenseActivation::tanh;
  Tensor pooler_norm_;  // undefined: there is none
  Tensor pooler_norm_bias_;
  float norm_eps_ = 0;
  Tensor classifier_;
  Tensor classifier_bias_;  // undefined: there is none
};

}  // namespace reprise::models
