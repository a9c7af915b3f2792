#pragma once

#include <vector>

#include "reprise/models/parameters.h"
#include "reprise/weights/config/model_config.h"

namespace reprise::models {

[[nodiscard]] Tensor activate_dense(weights::DenseActivation activation, const Tensor& x);

/// The projections after the pooling of a model that makes vectors, in float32 whatever the
/// model's type is: the modules Dense of Sentence Transformers.
class DenseHead {
 public:
  /// \pre config.pooling
  DenseHead(const weights::ModelConfig& config, Parameters& parameters);

  [[nodiscard]] Tensor operator()(const Tensor& vectors) const;  // float32[num_texts, size]

 private:
  struct Part {
    Tensor weight;
    Tensor bias;  // undefined: there is none
    weights::DenseActivation activation;
  };
  std::vector<Part> parts_;
};

}  // namespace reprise::models
