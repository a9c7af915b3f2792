// Mixtures of experts: Mixtral, Qwen2-MoE, Qwen3-MoE, OLMoE and Granite-MoE.
#include <fmt/format.h>

#include "reprise/weights/families/family_config.h"
#include "reprise/weights/token_limits.h"

namespace reprise::weights {
namespace {

// As many as the routing kernel keeps on its stack; published models have up to 512.
constexpr int64_t kMaxExperts = 1024;
// In all layers: each expert is three tensors with names. Published models have up to 25,000.
constexpr int64_t kMaxExpertsOfAllLayers = int64_t{1} << 17;
constexpr int64_t kMaxExpertSize = int64_t{1} << 20;

// Transformers 5 writes num_local_experts for some classes that were published with num_experts.
std::string_view count_key(const FamilyConfig& in) {
  return in.reader.has("num_local_experts") ? "num_local_experts" : "num_experts";
}

// Every `decoder_sparse_step`-th layer has experts, except those of `mlp_only_layers`.
void read_sparse_layers(const FamilyConfig& in) {
  const int64_t num_layers = in.config.num_hidden_layers;
  const int64_t step = in.reader.integer("decoder_sparse_step", 1, kMaxPositions).value_or(1);
  for (int64_t layer = 0; layer < num_layers; ++layer) {
    in.config.moe_layers.push_back((layer + 1) % step == 0);
  }
  for (const int64_t layer :
       in.reader.integers("mlp_only_layers", 0, num_layers - 1, static_cast<size_t>(num_layers))) {
    in.config.moe_layers[static_cast<size_t>(layer)] = false;
  }
}

}  // namespace

MixtureOfExperts read_experts(const FamilyConfig& in,
                              std::string_view count_key,
                              std::string_view size_key,
                              int64_t default_top_k) {
  MixtureOfExperts moe;
  moe.num_experts = in.reader.required_integer(count_key, 1, kMaxExperts);
  if (moe.num_experts * in.config.num_hidden_layers > kMaxExpertsOfAllLayers) {
    in.reader.fail(count_key,
                   fmt::format("{} in each of {} layers are more than {} in all",
                               moe.num_experts,
                               in.config.num_hidden_layers,
                               kMaxExpertsOfAllLayers));
  }
  moe.top_k = in.reader.integer("num_experts_per_tok", 1, kMaxExperts).value_or(default_top_k);
  if (moe.top_k > moe.num_experts) {
    in.reader.fail("num_experts_per_tok",
                   fmt::format("{} is more than {} {}", moe.top_k, count_key, moe.num_experts));
  }
  moe.intermediate_size = in.reader.required_integer(size_key, 1, kMaxExpertSize);
  return moe;
}

void read_mixtral(const FamilyConfig& in) {
  read_activation(in);
  read_sizes(in, {.default_norm_eps = 1e-5});
  read_heads(in);
  in.config.moe = read_experts(in, "num_local_experts", "intermediate_size", 2);
  in.config.moe->renormalises = true;
  in.config.moe_layers.assign(static_cast<size_t>(in.config.num_hidden_layers), true);
  use_window(in, in.reader.integer("sliding_window", 1, kMaxPositions));
  read_layer_types(in);
  read_rope(in, {.default_theta = 1e6});
  read_tied_embeddings(in, false);
}

void read_experts_of_granite(const FamilyConfig& in) {
  in.config.moe = read_experts(in, "num_local_experts", "intermediate_size", 2);
  in.config.moe->renormalises = true;
  in.config.moe_layers.assign(static_cast<size_t>(in.config.num_hidden_layers), true);
}

void read_granite_moe(const FamilyConfig& in) {
  read_granite(in);
  in.config.mlp_bias = false;
  read_experts_of_granite(in);
}

void read_experts_of_qwen(const FamilyConfig& in) {
  in.config.moe = read_experts(in, count_key(in), "moe_intermediate_size", 4);
  in.config.moe->renormalises = in.reader.boolean("norm_topk_prob").value_or(false);
  in.config.moe->shared_intermediate_size =
      in.reader.required_integer("shared_expert_intermediate_size", 1, kMaxExpertSize);
  in.config.moe->has_shared_gate = true;
  read_sparse_layers(in);
}

void read_qwen2_moe(const FamilyConfig& in) {
  read_qwen2(in);
  in.config.qkv_bias = in.reader.boolean("qkv_bias").value_or(true);
  read_experts_of_qwen(in);
}

void read_qwen3_moe(const FamilyConfig& in) {
  read_qwen3(in);
  in.config.moe = read_experts(in, count_key(in), "moe_intermediate_size", 8);
  in.config.moe->renormalises = in.reader.boolean("norm_topk_prob").value_or(false);
  read_sparse_layers(in);
}

void read_olmoe(const FamilyConfig& in) {
  read_olmo2(in);
  if (in.reader.find("clip_qkv") != nullptr) {
    in.reader.fail("clip_qkv", "is not supported; expected null");
  }
  in.config.moe = read_experts(in, count_key(in), "intermediate_size", 8);
  in.config.moe->renormalises = in.reader.boolean("norm_topk_prob").value_or(false);
  in.config.moe_layers.assign(static_cast<size_t>(in.config.num_hidden_layers), true);
}

}  // namespace reprise::weights
