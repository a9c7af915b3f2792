// DeepSeek-V2 and V3, models with the class of V3 such as Kimi-K2, and GLM-4.7-Flash: latent
// attention, and experts in groups.
#include <fmt/format.h>

#include <cmath>
#include <string_view>
#include <vector>

#include "reprise/weights/families/family_config.h"
#include "reprise/weights/tensor_spec.h"
#include "reprise/weights/token_limits.h"

namespace reprise::weights {
namespace {

// As many as the attention kernels sum on their stack; published models have 512.
constexpr int64_t kMaxLatentSize = 512;
constexpr int64_t kMaxHeadPart = 512;       // published models have 64 and 128
constexpr int64_t kMaxQueryRank = 1 << 14;  // published models have 1536
constexpr int64_t kMaxSharedExperts = 64;   // published models have 1 or 2
constexpr int64_t kMaxExpertGroups = 1024;
constexpr double kMaxRoutedScale = 1e6;

void read_latent_attention(const FamilyConfig& in) {
  const ConfigReader& reader = in.reader;
  LatentAttentionConfig mla;
  // null: the queries have no latent.
  const auto q_rank = reader.integer("q_lora_rank", 1, kMaxQueryRank);
  mla.q_lora_rank = q_rank.value_or(reader.has("q_lora_rank") ? 0 : 1536);
  mla.kv_lora_rank = reader.required_integer("kv_lora_rank", 1, kMaxLatentSize);
  mla.qk_nope_head_dim = reader.required_integer("qk_nope_head_dim", 1, kMaxHeadPart);
  mla.qk_rope_head_dim = reader.required_integer("qk_rope_head_dim", 2, kMaxHeadPart);
  mla.v_head_dim = reader.required_integer("v_head_dim", 1, kMaxHeadPart);
  if (mla.kv_lora_rank > in.config.hidden_size) {
    reader.fail(
        "kv_lora_rank",
        fmt::format("{} is more than hidden_size {}", mla.kv_lora_rank, in.config.hidden_size));
  }
  if (mla.qk_rope_head_dim % 2 != 0) {
    reader.fail("qk_rope_head_dim", fmt::format("must be even, got {}", mla.qk_rope_head_dim));
  }
  require_boolean(in, "attention_bias", false);
  in.config.head_dim = mla.qk_rope_head_dim;
  in.config.num_key_value_heads = in.config.num_attention_heads;
  in.config.mla = mla;
}

// `n_group` and `topk_group`, which may be null for a single group.
void read_expert_groups(const FamilyConfig& in, MixtureOfExperts& moe) {
  moe.groups = in.reader.integer("n_group", 1, kMaxExpertGroups).value_or(1);
  moe.top_groups = in.reader.integer("topk_group", 1, kMaxExpertGroups).value_or(moe.groups);
  const int64_t least = moe.scores == RouterScores::softmax ? 1 : 2;
  if (moe.num_experts % moe.groups != 0 || moe.num_experts / moe.groups < least) {
    in.reader.fail("n_group",
                   fmt::format("{} must divide n_routed_experts {} into groups of at least {}",
                               moe.groups,
                               moe.num_experts,
                               least));
  }
  if (moe.top_groups > moe.groups) {
    in.reader.fail("topk_group",
                   fmt::format("{} is more than n_group {}", moe.top_groups, moe.groups));
  }
  if (moe.top_k > moe.num_experts / moe.groups * moe.top_groups) {
    in.reader.fail("num_experts_per_tok",
                   fmt::format("{} is more than the {} experts of topk_group {} groups",
                               moe.top_k,
                               moe.num_experts / moe.groups * moe.top_groups,
                               moe.top_groups));
  }
}

void read_deepseek(const FamilyConfig& in,
                   bool is_interleaved,
                   RouterScores scores,
                   int64_t default_num_dense = 0) {
  ModelConfig& config = in.config;
  read_activation(in);
  read_sizes(in);
  read_latent_attention(in);
  read_rope(in, {.is_interleaved = is_interleaved});
  config.attention_scale =
      config.rope.score_factor / std::sqrt(static_cast<double>(config.mla->qk_head_dim()));
  read_experts_of_deepseek(in, scores, default_num_dense);
  read_tied_embeddings(in, false);
}

}  // namespace

void read_experts_of_deepseek(const FamilyConfig& in,
                              RouterScores scores,
                              int64_t default_num_dense,
                              bool renormalises_by_default) {
  ModelConfig& config = in.config;
  config.moe = read_experts(in, "n_routed_experts", "moe_intermediate_size", 8);
  MixtureOfExperts& moe = *config.moe;
  moe.scores = scores;
  if (scores == RouterScores::sigmoid_with_bias) {
    moe.renormalises = in.reader.boolean("norm_topk_prob").value_or(renormalises_by_default);
  } else {
    require_boolean(in, "norm_topk_prob", false);  // the class of V2 does not read it
  }
  moe.shared_intermediate_size =
      in.reader.integer("n_shared_experts", 0, kMaxSharedExperts).value_or(0) *
      moe.intermediate_size;
  moe.routed_scale = in.reader.number("routed_scaling_factor", 1e-6, kMaxRoutedScale).value_or(1);
  read_expert_groups(in, moe);
  const int64_t num_dense =
      in.reader.integer("first_k_dense_replace", 0, kMaxPositions).value_or(default_num_dense);
  const int64_t period = in.reader.integer("moe_layer_freq", 1, kMaxPositions).value_or(1);
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    config.moe_layers.push_back(layer >= num_dense && layer % period == 0);
  }
}

void read_deepseek_v2(const FamilyConfig& in) {
  read_deepseek(in, true, RouterScores::softmax);
  const std::string method = in.reader.string("topk_method").value_or("greedy");
  MixtureOfExperts& moe = *in.config.moe;
  if (method == "greedy") {
    moe.groups = moe.top_groups = 1;
  } else if (method != "group_limited_greedy") {
    in.reader.fail("topk_method",
                   fmt::format("'{}' is not supported; supported: greedy, group_limited_greedy",
                               visible(method)));
  }
}

void read_deepseek_v3(const FamilyConfig& in) {
  const bool is_interleaved = in.reader.boolean("rope_interleave").value_or(true);
  read_deepseek(in, is_interleaved, RouterScores::sigmoid_with_bias);
}

// DeepSeek-V3 under another name. A list may say which layers have experts.
void read_glm4_moe_lite(const FamilyConfig& in) {
  const bool is_interleaved = in.reader.boolean("rope_interleave").value_or(true);
  read_deepseek(in, is_interleaved, RouterScores::sigmoid_with_bias, 1);
  constexpr std::string_view kKey = "mlp_layer_types";
  const Json* listed = in.reader.find(kKey);
  if (listed == nullptr) return;
  std::vector<bool>& layers = in.config.moe_layers;
  if (!listed->is_array() || listed->size() != layers.size()) {
    in.reader.fail(kKey, fmt::format("must be a list of num_hidden_layers = {}", layers.size()));
  }
  for (size_t layer = 0; layer < layers.size(); ++layer) {
    const Json& type = listed->at(layer);
    if (type != "dense" && type != "sparse") {
      in.reader.fail(
          kKey,
          fmt::format("'{}' is not supported; supported: dense, sparse", visible(type.dump())));
    }
    layers[layer] = type == "sparse";
  }
}

}  // namespace reprise::weights
