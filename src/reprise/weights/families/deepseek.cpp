// DeepSeek-V2 and V3, models with the class of V3 such as Kimi-K2, GLM-4.7-Flash and Mistral Small
// 4: latent attention, and experts in groups. DeepSeek-V3.2 and GLM-5: sparse attention too.
#include <fmt/format.h>

#include <cmath>
#include <string_view>
#include <vector>

#include "reprise/weights/config/token_limits.h"
#include "reprise/weights/families/family_config.h"
#include "reprise/weights/tensor_spec.h"

namespace reprise::weights {
namespace {

// The largest latent that the attention kernels can sum on their stack; published models have 512.
constexpr int64_t kMaxLatentSize = 512;
constexpr int64_t kMaxHeadPart = 512;       // published models have 64 and 128
constexpr int64_t kMaxQueryRank = 1 << 14;  // published models have 1536
constexpr int64_t kMaxSharedExperts = 64;   // published models have 1 or 2
constexpr int64_t kMaxExpertGroups = 1024;
constexpr double kMaxRoutedScale = 1e6;
// The largest numbers for which the kernel has room on its stack. Published models choose 2048
// positions and have at most 64 heads.
constexpr int64_t kMaxIndexTopK = 2048;
constexpr int64_t kMaxIndexHeads = 128;

void use_scale_of_scores(ModelConfig& config) {
  config.attention_scale =
      config.rope.score_factor / std::sqrt(static_cast<double>(config.mla->qk_head_dim()));
}

// Published configs write these members, although the classes of Transformers do not read them: the
// values must be those that the class implies.
void require_router(const FamilyConfig& in, RouterScores scores) {
  constexpr std::string_view kChoice = "noaux_tc";  // chosen in groups, with a bias for each expert
  const auto require = [&](std::string_view key, std::string_view only) {
    const std::string value = in.reader.string(key).value_or(std::string(only));
    // dots.llm1 writes the name of the choice in both members.
    if (value == only || (only == "sigmoid" && value == kChoice)) return;
    in.reader.fail(key, fmt::format("'{}' is not supported; supported: {}", visible(value), only));
  };
  require("scoring_func", scores == RouterScores::softmax ? "softmax" : "sigmoid");
  const bool has_methods = in.config.architecture == Architecture::deepseek_v2;
  if (!has_methods) require("topk_method", scores == RouterScores::softmax ? "greedy" : kChoice);
}

// Reads `n_group` and `topk_group`, which may be null for a single group.
void read_expert_groups(const FamilyConfig& in, const ExpertKeys& keys, MixtureOfExperts& moe) {
  moe.groups = in.reader.integer(keys.groups, 1, kMaxExpertGroups).value_or(1);
  moe.top_groups = in.reader.integer("topk_group", 1, kMaxExpertGroups).value_or(moe.groups);
  const int64_t least = moe.scores == RouterScores::softmax ? 1 : 2;
  if (moe.num_experts % moe.groups != 0 || moe.num_experts / moe.groups < least) {
    in.reader.fail(keys.groups,
                   fmt::format("{} must divide {} {} into groups of at least {}",
                               moe.groups,
                               keys.count,
                               moe.num_experts,
                               least));
  }
  if (moe.top_groups > moe.groups) {
    in.reader.fail("topk_group",
                   fmt::format("{} is more than {} {}", moe.top_groups, keys.groups, moe.groups));
  }
  if (moe.top_k > moe.num_experts / moe.groups * moe.top_groups) {
    in.reader.fail(keys.top_k,
                   fmt::format("{} is more than the {} experts of topk_group {} groups",
                               moe.top_k,
                               moe.num_experts / moe.groups * moe.top_groups,
                               moe.top_groups));
  }
}

// Reads the rotation of Mistral Small 4: its configs give the rotated part as a share of a whole
// head of q and k.
void read_rope_of_mistral4(const FamilyConfig& in, const Json& by_default) {
  const LatentAttentionConfig& mla = *in.config.mla;
  const auto head_dim = static_cast<double>(mla.qk_head_dim());
  read_rope_with_temperature(
      in,
      by_default,
      {.head_dim = mla.qk_head_dim(),
       .partial_factor = "partial_rotary_factor",
       .default_partial_factor = static_cast<double>(mla.qk_rope_head_dim) / head_dim,
       .is_interleaved = in.reader.boolean("rope_interleave").value_or(true)});
  RopeParameters& rope = in.config.rope;
  const int64_t rotated = rope.rotary_dim == 0 ? mla.qk_head_dim() : rope.rotary_dim;
  if (rotated != mla.qk_rope_head_dim) {
    in.reader.fail("partial_rotary_factor",
                   fmt::format("rotates {} elements of a head, but qk_rope_head_dim is {}",
                               rotated,
                               mla.qk_rope_head_dim));
  }
  rope.rotary_dim = 0;  // all elements of the part that rotates
  if (in.config.query_temperature && mla.qk_nope_head_dim % 2 != 0) {
    in.reader.fail("qk_nope_head_dim", "must be even where queries grow with the position");
  }
}

// Reads `moe_layer_freq`: a number n, if every n-th layer has experts, or a list with a 1 for each
// layer that has them.
void read_moe_layer_freq(const FamilyConfig& in) {
  constexpr std::string_view kKey = "moe_layer_freq";
  std::vector<bool>& layers = in.config.moe_layers;
  const Json* value = in.reader.find(kKey);
  if (value != nullptr && value->is_array()) {
    (void)find_layer_list(in, kKey);
    const std::vector<int64_t> listed = in.reader.integers(kKey, 0, 1, layers.size());
    for (size_t layer = 0; layer < layers.size(); ++layer) layers[layer] = listed[layer] == 1;
    return;
  }
  const auto period = static_cast<size_t>(in.reader.integer(kKey, 1, kMaxPositions).value_or(1));
  for (size_t layer = 0; layer < layers.size(); ++layer) {
    layers[layer] = layers[layer] && layer % period == 0;
  }
}

void read_deepseek(const FamilyConfig& in,
                   bool is_interleaved,
                   RouterScores scores,
                   const DefaultExperts& experts = {}) {
  read_activation(in);
  read_sizes(in);
  read_latent_attention(in, 1536);
  read_rope(in, {.is_interleaved = is_interleaved});
  use_scale_of_scores(in.config);
  read_experts_of_deepseek(in, scores, experts);
  read_tied_embeddings(in, false);
}

// Reads the members of the indexer. A layer that reuses the positions of an earlier layer is not
// supported.
void read_position_index(const FamilyConfig& in, const PositionIndexConfig& by_default) {
  const ConfigReader& reader = in.reader;
  LatentAttentionConfig& mla = *in.config.mla;
  PositionIndexConfig index = by_default;
  index.num_heads =
      reader.integer("index_n_heads", 1, kMaxIndexHeads).value_or(by_default.num_heads);
  index.head_dim = reader.integer("index_head_dim", 1, kMaxHeadPart).value_or(by_default.head_dim);
  index.top_k = reader.integer("index_topk", 1, kMaxIndexTopK).value_or(by_default.top_k);
  if (index.head_dim <= mla.qk_rope_head_dim) {
    reader.fail(
        "index_head_dim",
        fmt::format(
            "{} must be more than qk_rope_head_dim {}", index.head_dim, mla.qk_rope_head_dim));
  }
  if (mla.q_lora_rank == 0) reader.fail("q_lora_rank", "the indexer needs the latent of queries");
  const auto require_all = [&](std::string_view key, std::string_view only) {
    const Json* listed = find_layer_list(in, key);
    if (listed == nullptr) return;
    for (const Json& value : *listed) {
      if (value == only) continue;
      reader.fail(key,
                  fmt::format("'{}' is not supported; supported: {}", visible(value.dump()), only));
    }
  };
  require_all("indexer_types", "full");
  require_all("layer_types", "indexed_attention");
  if (reader.integer("index_topk_freq", 0, kMaxPositions).value_or(1) > 1) {
    reader.fail("index_topk_freq", "only 1 is supported: every layer chooses its own positions");
  }
  if (const Json* pattern = reader.find("index_topk_pattern"); pattern != nullptr) {
    const std::string text = reader.string("index_topk_pattern").value_or("");
    if (text.find_first_not_of('F') != std::string::npos) {
      reader.fail("index_topk_pattern", "only F is supported: a layer chooses its own positions");
    }
  }
  mla.index = index;
}

// DeepSeek-V3 in which tokens choose the positions that they see.
void read_sparse_deepseek(const FamilyConfig& in,
                          double default_norm_eps,
                          int64_t default_q_rank,
                          const PositionIndexConfig& index) {
  read_activation(in);
  read_sizes(in, {.default_norm_eps = default_norm_eps});
  read_latent_attention(in, default_q_rank);
  read_position_index(in, index);
  read_rope(in, {.is_interleaved = true});
  use_scale_of_scores(in.config);
  read_experts_of_deepseek(
      in, RouterScores::sigmoid_with_bias, {.num_dense = 3, .num_shared = 1, .routed_scale = 2.5});
  read_mlp_layer_types(in);
  read_tied_embeddings(in, false);
}

}  // namespace

void read_latent_attention(const FamilyConfig& in, int64_t default_q_rank) {
  const ConfigReader& reader = in.reader;
  LatentAttentionConfig mla;
  // null: the queries have no latent.
  const auto q_rank = reader.integer("q_lora_rank", 1, kMaxQueryRank);
  mla.q_lora_rank = q_rank.value_or(reader.has("q_lora_rank") ? 0 : default_q_rank);
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

void read_experts_of_deepseek(const FamilyConfig& in,
                              RouterScores scores,
                              const DefaultExperts& by_default,
                              const ExpertKeys& keys) {
  ModelConfig& config = in.config;
  require_router(in, scores);
  config.moe = read_experts(in, keys.count, "moe_intermediate_size", by_default.top_k, keys.top_k);
  MixtureOfExperts& moe = *config.moe;
  moe.scores = scores;
  moe.renormalises = in.reader.boolean(keys.renormalises).value_or(by_default.renormalises);
  moe.shared_intermediate_size =
      in.reader.integer(keys.num_shared, 0, kMaxSharedExperts).value_or(by_default.num_shared) *
      moe.intermediate_size;
  moe.routed_scale = in.reader.number("routed_scaling_factor", 1e-6, kMaxRoutedScale)
                         .value_or(by_default.routed_scale);
  read_expert_groups(in, keys, moe);
  const int64_t num_dense =
      in.reader.integer("first_k_dense_replace", 0, kMaxPositions).value_or(by_default.num_dense);
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    config.moe_layers.push_back(layer >= num_dense);
  }
  read_moe_layer_freq(in);
}

void read_mlp_layer_types(const FamilyConfig& in, int64_t num_more) {
  constexpr std::string_view kKey = "mlp_layer_types";
  const Json* listed = find_layer_list(in, kKey, num_more);
  if (listed == nullptr) return;
  std::vector<bool>& layers = in.config.moe_layers;
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

void read_deepseek_v2(const FamilyConfig& in) {
  require_boolean(in, "norm_topk_prob", false);  // the class does not read it
  require_boolean(in, "mlp_bias", false);
  read_deepseek(in, true, RouterScores::softmax, {.renormalises = false});
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

void read_deepseek_v32(const FamilyConfig& in) {
  read_sparse_deepseek(in, 1e-6, 1536, {.num_heads = 64, .head_dim = 128, .top_k = 2048});
}

// DeepSeek-V3.2 in which the indexer rotates neighbouring elements.
void read_glm_moe_dsa(const FamilyConfig& in) {
  read_sparse_deepseek(
      in, 1e-5, 2048, {.num_heads = 32, .head_dim = 128, .top_k = 2048, .is_interleaved = true});
}

// DeepSeek-V3 with another name. A list may say which layers have experts.
void read_glm4_moe_lite(const FamilyConfig& in) {
  const bool is_interleaved = in.reader.boolean("rope_interleave").value_or(true);
  read_deepseek(in, is_interleaved, RouterScores::sigmoid_with_bias, {.num_dense = 1});
  read_mlp_layer_types(in);
}

// DeepSeek-V3 with softmax scores in the router, and with queries that grow with the position.
void read_mistral4(const FamilyConfig& in) {
  static const Json kScaling = {{"rope_type", "yarn"},
                                {"rope_theta", 10000.0},
                                {"factor", 128.0},
                                {"original_max_position_embeddings", 8192},
                                {"mscale", 1.0},
                                {"mscale_all_dim", 1.0},
                                {"llama_4_scaling_beta", 0.1}};
  read_activation(in);
  read_sizes(in);
  read_latent_attention(in, 1024);
  read_rope_of_mistral4(in, kScaling);
  use_scale_of_scores(in.config);
  read_experts_of_deepseek(in, RouterScores::softmax, {.top_k = 4, .num_shared = 1});
  if (in.config.moe->groups > 1) {
    in.reader.fail("n_group", "only 1 is supported: no kernel has the groups of this class");
  }
  read_tied_embeddings(in, false);
}

}  // namespace reprise::weights
