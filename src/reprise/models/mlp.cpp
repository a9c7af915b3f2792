#include "reprise/models/mlp.h"

#include <cmath>

#include "reprise/models/expert_mlp.h"
#include "reprise/models/projection.h"
#include "reprise/tensor/ops.h"

namespace reprise::models {

namespace {

// The configs of MLPs without a gate that use silu, and of gated ones that use relu, were refused.
OpFunction function_of(weights::Activation activation) {
  switch (activation) {
    case weights::Activation::gelu:
      return OpFunction::gelu;
    case weights::Activation::gelu_tanh:
      return OpFunction::gelu_tanh;
    case weights::Activation::relu:
      return OpFunction::relu;
    case weights::Activation::relu2:
      return OpFunction::relu2;
    case weights::Activation::silu:
      break;
  }
  return OpFunction::none;
}

// The gate whose silu is `limit`. silu grows where it is positive, so that a smaller gate has a
// smaller silu.
double gate_of_silu(double limit) {
  double gate = limit;
  constexpr int kSteps = 50;  // steps of Newton's method; fewer than ten reach the last bit
  for (int step = 0; step < kSteps; ++step) {
    const double sigmoid = 1 / (1 + std::exp(-gate));
    const double slope = sigmoid * (1 + gate * (1 - sigmoid));
    gate -= (gate * sigmoid - limit) / slope;
  }
  return gate;
}

}  // namespace

Tensor activate(weights::Activation activation, const Tensor& x) {
  return ops::activation(x, function_of(activation));
}

Tensor activate_and_mul(weights::Activation activation, const Tensor& gate_up) {
  return activation == weights::Activation::silu
             ? ops::silu_and_mul(gate_up)
             : ops::activation_and_mul(gate_up, function_of(activation));
}

Tensor limited_silu_and_mul(const Tensor& gate_up, double limit) {
  const int64_t size = gate_up.size(1) / 2;
  constexpr float kLeastGate = -200;  // here and below it, silu is 0 in float32
  const auto most_gate = static_cast<float>(gate_of_silu(limit));
  const Tensor gate = ops::clamp(ops::slice(gate_up, 1, 0, size), kLeastGate, most_gate);
  const auto most = static_cast<float>(limit);
  return ops::mul_gate(
      ops::clamp(ops::slice(gate_up, 1, size, size), -most, most), gate, OpFunction::silu);
}

Mlp::Mlp(const LayerParts& parts)
    : activation_(parts.config.activation),
      is_gated_(parts.config.has_gated_mlp),
      gate_scale_(static_cast<float>(parts.config.multipliers.mlp_gate)),
      limit_(parts.config.mlp_limit_of_layer(parts.layer)) {
  const weights::DecoderTensors& names = parts.names;
  const bool has_bias = parts.config.mlp_bias;
  if (!is_gated_) {
    up_ = parts.load_linear(has_bias, {names.up});
  } else if (names.gate_up.empty()) {
    up_ = parts.load_linear(has_bias, {names.gate, names.up});
  } else {
    up_ = parts.load_linear(has_bias, {names.gate_up});
  }
  down_ = parts.load_row_parallel(has_bias, {names.down});
}

Tensor Mlp::operator()(cudagraph::ForwardContext& context, const Tensor& hidden) const {
  const Tensor up = project(context, hidden, up_);
  if (gate_scale_ != 1) {
    const int64_t size = up.size(1) / 2;
    const Tensor gate = ops::scale(ops::slice(up, 1, 0, size), gate_scale_);
    return project(
        context, ops::mul_gate(ops::slice(up, 1, size, size), gate, OpFunction::silu), down_);
  }
  if (limit_ > 0) return project(context, limited_silu_and_mul(up, limit_), down_);
  const Tensor inner = is_gated_ ? activate_and_mul(activation_, up) : activate(activation_, up);
  return project(context, inner, down_);
}

std::unique_ptr<FeedForward> make_feed_forward(const LayerParts& parts) {
  if (parts.config.is_moe_layer(parts.layer)) return std::make_unique<ExpertMlp>(parts);
  return std::make_unique<Mlp>(parts);
}

}  // namespace reprise::models
