#include "reprise/models/dense_head.h"

#include "reprise/tensor/ops.h"
#include "reprise/weights/config/dense_modules.h"

namespace reprise::models {

Tensor activate_dense(weights::DenseActivation activation, const Tensor& x) {
  switch (activation) {
    case weights::DenseActivation::tanh:
      return ops::soft_cap(x, 1);  // c * tanh(x / c)
    case weights::DenseActivation::relu:
      return ops::activation(x, OpFunction::relu);
    case weights::DenseActivation::gelu:
      return ops::activation(x, OpFunction::gelu);
    case weights::DenseActivation::identity:
      break;
  }
  return x;
}

DenseHead::DenseHead(const weights::ModelConfig& config, Parameters& parameters) {
  const std::vector<weights::DenseModule>& modules = config.pooling->dense;
  for (size_t i = 0; i < modules.size(); ++i) {
    const auto load = [&](std::string_view tensor) {
      return parameters.load(weights::dense_tensor_name(i, tensor), {.dtype = DType::f32});
    };
    parts_.push_back({.weight = load("weight"),
                      .bias = modules[i].has_bias ? load("bias") : Tensor(),
                      .activation = modules[i].activation});
  }
}

Tensor DenseHead::operator()(const Tensor& vectors) const {
  Tensor x = vectors;
  for (const Part& part : parts_) {
    x = activate_dense(part.activation, ops::linear(x, part.weight, part.bias));
  }
  return x;
}

}  // namespace reprise::models
