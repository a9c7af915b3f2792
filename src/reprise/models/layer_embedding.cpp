#include "reprise/models/layer_embedding.h"

#include <cmath>
#include <numbers>
#include <string>
#include <string_view>

#include "reprise/models/mlp.h"
#include "reprise/models/projection.h"
#include "reprise/tensor/ops.h"

namespace reprise::models {
namespace {

std::string weight_name(std::string_view module) { return std::string(module) + ".weight"; }

float root_of(int64_t size) { return std::sqrt(static_cast<float>(size)); }

}  // namespace

LayerEmbedding::LayerEmbedding(const weights::ModelConfig& config,
                               const weights::DecoderTensors& names,
                               Parameters& parameters)
    : num_layers_(config.num_hidden_layers),
      first_layer_(config.first_layer()),
      size_(config.hidden_size_per_layer_input),
      table_(parameters.load_table(weight_name(names.layer_embedding))),
      projection_(parameters.load_projection(weight_name(names.layer_embedding_projection))),
      norm_(config, parameters, std::string(names.layer_embedding_norm)) {}

Tensor LayerEmbedding::operator()(const Tensor& input_ids, const Tensor& hidden) const {
  const Tensor looked_up = ops::scale(ops::embedding(input_ids, table_), root_of(size_));
  const Tensor projected = ops::scale(project(hidden, projection_), 1 / root_of(hidden.size(1)));
  const Tensor normed = ops::flatten(norm_(ops::unflatten(projected, num_layers_)));
  constexpr auto kHalfPower = static_cast<float>(1 / std::numbers::sqrt2);
  return ops::scale(ops::add(normed, looked_up), kHalfPower);
}

Tensor LayerEmbedding::part(const Tensor& of_all, size_t layer_of_rank) const {
  const int64_t layer = first_layer_ + static_cast<int64_t>(layer_of_rank);
  return ops::slice(of_all, 1, layer * size_, size_);
}

LayerInput::LayerInput(const LayerParts& parts)
    : activation_(parts.config.activation),
      gate_(parts.load_linear(false, {parts.names.layer_input_gate})),
      projection_(parts.load_linear(false, {parts.names.layer_input_projection})),
      norm_(parts, parts.names.layer_input_norm) {}

Tensor LayerInput::operator()(cudagraph::ForwardContext& context,
                              const Tensor& hidden,
                              const Tensor& layer_input) const {
  const Tensor gate = project(context, hidden, gate_);
  const Tensor gated = activate_and_mul(activation_, side_by_side(gate, layer_input));
  return norm_(project(context, gated, projection_));
}

}  // namespace reprise::models
