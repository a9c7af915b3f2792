#include "reprise/models/expert_mlp.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "reprise/models/mlp.h"
#include "reprise/models/projection.h"
#include "reprise/tensor/ops.h"

namespace reprise::models {
namespace {

// The matrices of all experts as [experts, rows, columns]. Several modules of an expert are stacked
// by rows.
Tensor load_experts(const LayerParts& parts, std::initializer_list<std::string_view> modules) {
  const weights::ExpertRange mine = parts.config.moe->local_experts();
  std::vector<std::string> names;
  for (int64_t expert = mine.begin; expert < mine.begin + mine.count; ++expert) {
    for (const std::string_view module : modules) {
      names.push_back(parts.names.in_expert(parts.layer, expert, module) + ".weight");
    }
  }
  const std::vector<std::string_view> views(names.begin(), names.end());
  const std::string of_all = fmt::format("{}*.{}.weight",
                                         parts.names.in_layer(parts.layer, parts.names.experts),
                                         fmt::join(modules, "+"));
  return parts.parameters.load_experts(views, {.num_experts = mine.count, .name = of_all});
}

// The rows of the router that belong to this rank's experts.
Arrangement rows_of(const weights::ExpertRange& experts, std::string name) {
  Arrangement arrangement{.num_experts = experts.count, .name = std::move(name)};
  for (int64_t i = 0; i < experts.count; ++i) arrangement.rows.push_back(experts.begin + i);
  return arrangement;
}

}  // namespace

ExpertMlp::PartsBesideMlp::PartsBesideMlp(const LayerParts& parts)
    : epsilon(static_cast<float>(parts.config.norm_eps)),
      router_scale(
          parts.parameters.load(parts.names.in_layer(parts.layer, parts.names.router_scale))),
      expert_scales(
          parts.parameters.load(parts.names.in_layer(parts.layer, parts.names.expert_scales))),
      norm(parts, parts.names.expert_norm) {}

ExpertMlp::ExpertMlp(const LayerParts& parts)
    : activation_(parts.config.activation),
      routing_(*parts.config.moe),
      limits_{.of_experts = routing_.limit_of_layer(parts.layer),
              .of_shared = parts.config.mlp_limit_of_layer(parts.layer)},
      ranks_(parts.config.tensor_parallel_size) {
  const weights::DecoderTensors& names = parts.names;
  if (parts.expert_counting != nullptr) {
    counter_ = parts.expert_counting->op;
    num_tokens_ = parts.expert_counting->num_tokens;
    counts_ = parts.expert_counting->layers[static_cast<size_t>(parts.layer)];
  }
  router_ = parts.load_projection({names.router});
  if (routing_.has_bias_of_choice()) {
    // The bias stays float32: a rounded bias would choose other experts.
    const Tensor bias = parts.parameters.load(names.in_layer(parts.layer, names.router_bias),
                                              {.dtype = DType::f32});
    router_bias_ = bias.with_layout({routing_.num_experts}, {1}, 0);
  }
  if (routing_.is_beside_mlp) beside_mlp_.emplace(parts);
  if (routing_.latent_size > 0) {
    // These projections take no adapters, like the experts: they may also read tokens of other
    // engines.
    const auto load = [&](std::string_view name) {
      return Projection{.weight = parts.load_projection({name}),
                        .bias = parts.load_bias(parts.config.mlp_bias, {name})};
    };
    latent_ = LatentProjections{.in = load(names.latent_in), .out = load(names.latent_out)};
  }
  if (routing_.scores == weights::RouterScores::sigmoid_of_input) {
    const std::string name = names.in_layer(parts.layer, names.router) + ".weight";
    const std::string_view view = name;
    router_rows_ = parts.parameters.load_stacked(
        {&view, 1}, rows_of(routing_.local_experts(), name + " by expert"));
  }
  if (routing_.is_stacked) {
    const std::string prefix = names.in_layer(parts.layer, names.experts);
    const auto load = [&](std::string_view part) {
      const std::string name = prefix + std::string(part);
      const std::string_view view = name;
      return std::pair(parts.parameters.load_experts({&view, 1}, {}),
                       parts.parameters.load(name + "_bias"));
    };
    router_weight_bias_ = parts.load_bias(true, {names.router});
    std::tie(gate_up_, gate_up_bias_) = load(names.expert_gate_up);
    std::tie(down_, down_bias_) = load(names.expert_down);
    return;
  }
  gate_up_ = routing_.is_gated ? load_experts(parts, {names.expert_gate, names.expert_up})
                               : load_experts(parts, {names.expert_up});
  down_ = load_experts(parts, {names.expert_down});
  if (routing_.shared_intermediate_size > 0) load_shared(parts);
}

void ExpertMlp::load_shared(const LayerParts& parts) {
  const weights::DecoderTensors& names = parts.names;
  const auto of_shared = [&](std::string_view module) {
    return fmt::format("{}{}", names.shared_expert, module);
  };
  const auto [gate, up, down] = names.shared_modules();
  if (!names.shared_gate_up.empty()) {
    shared_gate_up_ = parts.load_projection({of_shared(names.shared_gate_up)});
  } else if (routing_.is_gated) {
    shared_gate_up_ = parts.load_projection({of_shared(gate), of_shared(up)});
  } else {
    shared_gate_up_ = parts.load_projection({of_shared(up)});
  }
  shared_down_ = parts.load_projection({of_shared(down)});
  if (routing_.has_shared_gate) shared_gate_ = parts.load_projection({names.shared_expert_gate});
}

Tensor ExpertMlp::operator()(cudagraph::ForwardContext& /*context*/, const Tensor& hidden) const {
  const Tensor routed = routing_.engines > 1 ? run_for_engines(hidden) : run_experts(hidden);
  const Tensor sum = shared_down_.defined() ? ops::add(routed, shared(hidden)) : routed;
  // Each rank has either a part of every expert or some whole experts; in both cases the ranks'
  // results are added.
  return ranks_ > 1 ? ops::all_reduce(sum, ranks_) : sum;
}

// Every engine has the same number of rows, because their steps have one padded size. Each engine
// computes what its own experts add to the rows of all engines.
Tensor ExpertMlp::run_for_engines(const Tensor& hidden) const {
  const Tensor rows = ops::all_gather(hidden, routing_.engines);
  return ops::reduce_scatter(run_experts(rows), routing_.engines);
}

Tensor ExpertMlp::router_logits(const Tensor& hidden) const {
  if (!beside_mlp_) return project(hidden, router_, router_weight_bias_);
  const auto size = static_cast<float>(hidden.size(1));
  const Tensor normed = ops::rms_norm(hidden, beside_mlp_->router_scale, beside_mlp_->epsilon);
  return ops::scale(project(normed, router_), 1 / std::sqrt(size));
}

Tensor ExpertMlp::run_experts(const Tensor& hidden) const {
  auto [weights, experts] = route(router_logits(hidden));
  if (beside_mlp_) weights = ops::scale_experts(weights, experts, beside_mlp_->expert_scales);
  if (counter_ != nullptr) {
    const std::array operands = {experts, num_tokens_, counts_};
    (void)ops::custom(*counter_, operands);
  }
  if (const auto& mine = routing_.of_rank) {
    std::tie(weights, experts) = ops::local_experts(weights, experts, mine->begin, mine->count);
  }
  const Tensor normed = beside_mlp_ ? beside_mlp_->norm(hidden) : hidden;
  const Tensor x = latent_ ? project(normed, latent_->in.weight, latent_->in.bias) : normed;
  Tensor gate_up = project_by_expert(x, gate_up_, gate_up_bias_, experts);
  if (router_rows_.defined()) {
    // Scaling an expert's input is the same as scaling the results of its first matrices, so the
    // factor is applied there.
    gate_up = ops::sigmoid_gate(gate_up, ops::expert_linear(hidden, router_rows_, {}, experts));
  }
  const Tensor down = project_by_expert(activate(gate_up), down_, down_bias_, experts);
  Tensor combined = ops::combine_experts(down, weights);
  // route() scales the weights of the other routers.
  if (is_plain_softmax() && routing_.renormalises && routing_.routed_scale != 1) {
    combined = ops::scale(combined, static_cast<float>(routing_.routed_scale));
  }
  return latent_ ? project(combined, latent_->out.weight, latent_->out.bias) : combined;
}

Tensor ExpertMlp::activate(const Tensor& up) const {
  if (!routing_.is_gated) return models::activate(activation_, up);
  if (limits_.of_experts > 0) return limited_silu_and_mul(up, limits_.of_experts);
  if (routing_.swiglu_limit == 0) return activate_and_mul(activation_, up);
  return ops::swigluoai_and_mul(up, static_cast<float>(routing_.swiglu_limit));
}

std::pair<Tensor, Tensor> ExpertMlp::route(const Tensor& logits) const {
  const auto scale = static_cast<float>(routing_.routed_scale);
  const auto by_logits = [&](OpFunction function) {
    return ops::select_experts(logits, function, 1.0F, routing_.top_k, 0, 0);
  };
  const auto by_scores = [&](OpFunction function) {
    return ops::select_experts(logits,
                               router_bias_,
                               function,
                               scale,
                               routing_.top_k,
                               routing_.groups,
                               routing_.top_groups);
  };
  if (routing_.scores == weights::RouterScores::sigmoid_of_input) {
    return by_logits(OpFunction::ones);
  }
  if (routing_.scores == weights::RouterScores::sigmoid_with_bias) {
    return by_scores(routing_.renormalises ? OpFunction::normalized_sigmoid : OpFunction::sigmoid);
  }
  if (routing_.has_bias_of_choice()) return by_scores(OpFunction::normalized_softmax);
  if (!is_plain_softmax() || (scale != 1 && !routing_.renormalises)) {
    return by_scores(OpFunction::softmax);
  }
  return by_logits(routing_.renormalises ? OpFunction::softmax_of_chosen
                                         : OpFunction::softmax_of_all);
}

Tensor ExpertMlp::shared(const Tensor& hidden) const {
  const Tensor gate_up = project(hidden, shared_gate_up_);
  Tensor inner;
  if (limits_.of_shared > 0) {
    inner = limited_silu_and_mul(gate_up, limits_.of_shared);
  } else {
    inner = routing_.is_gated ? activate_and_mul(activation_, gate_up)
                              : models::activate(activation_, gate_up);
  }
  const Tensor down = project(inner, shared_down_);
  return shared_gate_.defined() ? ops::sigmoid_gate(down, project(hidden, shared_gate_)) : down;
}

}  // namespace reprise::models
