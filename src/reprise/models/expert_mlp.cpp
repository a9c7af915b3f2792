#include "reprise/models/expert_mlp.h"

#include <fmt/format.h>

#include <vector>

#include "reprise/models/mlp.h"
#include "reprise/models/projection.h"
#include "reprise/tensor/ops.h"

namespace reprise::models {
namespace {

// The matrices of all experts as [experts, rows, columns]; several modules of an expert lie one
// above the other.
Tensor load_experts(const LayerParts& parts, std::initializer_list<std::string_view> modules) {
  const int64_t num_experts = parts.config.moe->num_experts;
  std::vector<std::string> names;
  for (int64_t expert = 0; expert < num_experts; ++expert) {
    for (const std::string_view module : modules) {
      names.push_back(parts.names.in_expert(parts.layer, expert, module) + ".weight");
    }
  }
  const std::vector<std::string_view> views(names.begin(), names.end());
  const std::string of_all = fmt::format("{}*.{}.weight",
                                         parts.names.in_layer(parts.layer, parts.names.experts),
                                         fmt::join(modules, "+"));
  return parts.parameters.load_stacked(views, {.num_experts = num_experts, .name = of_all});
}

}  // namespace

ExpertMlp::ExpertMlp(const LayerParts& parts)
    : activation_(parts.config.activation),
      top_k_(parts.config.moe->top_k),
      renormalises_(parts.config.moe->renormalises) {
  const weights::DecoderTensors& names = parts.names;
  router_ = parts.load_projection({names.router});
  gate_up_ = load_experts(parts, {names.expert_gate, names.expert_up});
  down_ = load_experts(parts, {names.expert_down});
  if (parts.config.moe->shared_intermediate_size == 0) return;
  const auto of_shared = [&](std::string_view module) {
    return fmt::format("{}{}", names.shared_expert, module);
  };
  shared_gate_up_ =
      parts.load_projection({of_shared(names.expert_gate), of_shared(names.expert_up)});
  shared_down_ = parts.load_projection({of_shared(names.expert_down)});
  shared_gate_ = parts.load_projection({names.shared_expert_gate});
}

Tensor ExpertMlp::operator()(const Tensor& hidden) const {
  const Tensor logits = project(hidden, router_);
  const auto [weights, experts] =
      renormalises_ ? ops::top_k_softmax(logits, top_k_) : ops::softmax_top_k(logits, top_k_);
  const Tensor gate_up = ops::expert_linear(hidden, gate_up_, {}, experts);
  const Tensor down =
      ops::expert_linear(activate_and_mul(activation_, gate_up), down_, {}, experts);
  const Tensor routed = ops::combine_experts(down, weights);
  return shared_gate_.defined() ? ops::add(routed, shared(hidden)) : routed;
}

Tensor ExpertMlp::shared(const Tensor& hidden) const {
  const Tensor gate_up = project(hidden, shared_gate_up_);
  const Tensor down = project(activate_and_mul(activation_, gate_up), shared_down_);
  return ops::sigmoid_gate(down, project(hidden, shared_gate_));
}

}  // namespace reprise::models
