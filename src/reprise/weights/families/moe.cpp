// Mixtures of experts: Mixtral, Qwen2-MoE, Qwen3-MoE, OLMoE, Granite-MoE, MiniMax-M2, Ernie 4.5 and
// Hunyuan.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/weights/config/token_limits.h"
#include "reprise/weights/families/family_config.h"

namespace reprise::weights {
namespace {

// The largest number for which the routing kernel has room on its stack; published models have up
// to 512.
constexpr int64_t kMaxExperts = 1024;
// The experts of all layers together. Each expert has three named tensors, so the number must be
// limited. Published models have up to 25,000.
constexpr int64_t kMaxExpertsOfAllLayers = int64_t{1} << 17;
constexpr int64_t kMaxExpertSize = int64_t{1} << 20;
// The published OLMo with a clip has 8.
constexpr double kLeastClip = 1e-6;
constexpr double kMostClip = 1e6;

// Transformers 5 writes num_local_experts for some classes that were published with num_experts.
std::string_view count_key(const FamilyConfig& in) {
  return in.reader.has("num_local_experts") ? "num_local_experts" : "num_experts";
}

// Reads a number from 1 to `most`, or a list with the same number for each layer.
std::optional<int64_t> of_all_layers(const FamilyConfig& in, std::string_view key, int64_t most) {
  const std::vector<int64_t> numbers =
      in.reader.integers(key, 1, most, static_cast<size_t>(kMaxPositions));
  if (numbers.empty()) {
    if (in.reader.find(key) != nullptr) in.reader.fail(key, "must not be an empty list");
    return std::nullopt;
  }
  if (std::ranges::count(numbers, numbers.front()) != std::ssize(numbers)) {
    in.reader.fail(key, "must be the same for all layers");
  }
  return numbers.front();
}

int64_t required_of_all_layers(const FamilyConfig& in, std::string_view key, int64_t most) {
  const std::optional<int64_t> number = of_all_layers(in, key, most);
  return number ? *number : in.reader.required_integer(key, 1, most);
}

void require_text(const FamilyConfig& in, std::string_view key, std::string_view only) {
  if (in.reader.string(key).value_or(std::string(only)) == only) return;
  in.reader.fail(key, fmt::format("only '{}' is supported", only));
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
                              int64_t default_top_k,
                              std::string_view top_k_key) {
  MixtureOfExperts moe;
  moe.num_experts = required_of_all_layers(in, count_key, kMaxExperts);
  if (moe.num_experts * in.config.num_hidden_layers > kMaxExpertsOfAllLayers) {
    in.reader.fail(count_key,
                   fmt::format("{} in each of {} layers are more than {} in all",
                               moe.num_experts,
                               in.config.num_hidden_layers,
                               kMaxExpertsOfAllLayers));
  }
  moe.top_k = of_all_layers(in, top_k_key, kMaxExperts).value_or(default_top_k);
  if (moe.top_k > moe.num_experts) {
    in.reader.fail(top_k_key,
                   fmt::format("{} is more than {} {}", moe.top_k, count_key, moe.num_experts));
  }
  moe.intermediate_size = required_of_all_layers(in, size_key, kMaxExpertSize);
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
  in.config.qkv_clip = in.reader.number("clip_qkv", kLeastClip, kMostClip).value_or(0);
  in.config.moe = read_experts(in, count_key(in), "intermediate_size", 8);
  in.config.moe->renormalises = in.reader.boolean("norm_topk_prob").value_or(false);
  in.config.moe_layers.assign(static_cast<size_t>(in.config.num_hidden_layers), true);
}

// MiniMax-M2: norms over all heads of q and of k, half of a head rotated, and the router of
// DeepSeek-V3.
void read_minimax_m2(const FamilyConfig& in) {
  const ConfigReader& reader = in.reader;
  read_activation(in);
  read_sizes(in);
  read_heads(in, 128);
  ModelConfig& config = in.config;
  require_boolean(in, "use_qk_norm", true);
  require_boolean(in, "use_routing_bias", true);
  require_text(in, "qk_norm_type", "per_layer");
  require_text(in, "scoring_func", "sigmoid");
  constexpr std::string_view kTypes = "attn_type_list";  // 1: attention, 0: a recurrence
  const auto num_layers = static_cast<size_t>(config.num_hidden_layers);
  if (std::ranges::count(reader.integers(kTypes, 0, 1, num_layers), 0) != 0) {
    reader.fail(kTypes, "only layers of kind 1, full attention, are supported");
  }
  config.qk_norm = QkNorm::all_heads;
  config.moe = read_experts(in, "num_local_experts", "intermediate_size", 8);
  config.moe->scores = RouterScores::sigmoid_with_bias;
  config.moe->renormalises = true;
  if (reader.integer("shared_intermediate_size", 0, kMaxExpertSize).value_or(0) != 0) {
    reader.fail("shared_intermediate_size", "only 0 is supported");
  }
  config.moe_layers.assign(static_cast<size_t>(config.num_hidden_layers), true);
  // Published configs name the number of rotated elements.
  const auto rotated = reader.integer("rotary_dim", 2, config.head_dim);
  read_rope(
      in,
      {.default_theta = 5e6,
       .partial_factor = "partial_rotary_factor",
       .default_partial_factor =
           rotated ? static_cast<double>(*rotated) / static_cast<double>(config.head_dim) : 1.0});
  read_tied_embeddings(in, false);
}

void read_ernie4_5_moe(const FamilyConfig& in) {
  const ConfigReader& reader = in.reader;
  read_ernie4_5(in);
  ModelConfig& config = in.config;
  config.moe = read_experts(in, "moe_num_experts", "moe_intermediate_size", 6, "moe_k");
  config.moe->scores = RouterScores::softmax_with_bias;
  // A token's expert weights are divided by their sum, or by this number if it is larger. Up to
  // kMostWithoutEffect it has no effect.
  constexpr double kMostWithoutEffect = 1e-6;
  (void)reader.number("moe_norm_min", 0, kMostWithoutEffect);
  if (config.mlp_bias) reader.fail("use_bias", "is not supported beside experts");
  config.moe->shared_intermediate_size =
      reader.integer("moe_num_shared_experts", 0, kMaxExperts).value_or(2) *
      config.moe->intermediate_size;
  const int64_t first = reader.integer("moe_layer_start_index", 0, kMaxPositions).value_or(1);
  const int64_t last = reader.integer("moe_layer_end_index", -1, kMaxPositions).value_or(-1);
  const int64_t period = reader.integer("moe_layer_interval", 1, kMaxPositions).value_or(1);
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    config.moe_layers.push_back((layer + 1) % period == 0 && layer >= first &&
                                (last == -1 || layer <= last));
  }
}

// In published models the sizes of all layers are equal, but the configs list them.
void read_hunyuan_moe(const FamilyConfig& in) {
  read_hunyuan_dense(in);
  ModelConfig& config = in.config;
  config.moe = read_experts(in, "num_experts", "intermediate_size", 1, "moe_topk");
  config.moe->renormalises = true;
  config.moe->shared_intermediate_size = config.moe->intermediate_size;
  if (of_all_layers(in, "num_shared_expert", kMaxExperts).value_or(1) != 1) {
    in.reader.fail("num_shared_expert", "only 1 is supported");
  }
  const int64_t size =
      of_all_layers(in, "moe_intermediate_size", kMaxExpertSize).value_or(config.intermediate_size);
  if (size != config.intermediate_size) {
    in.reader.fail("moe_intermediate_size",
                   fmt::format("only intermediate_size {} is supported", config.intermediate_size));
  }
  config.moe_layers.assign(static_cast<size_t>(config.num_hidden_layers), true);
}

}  // namespace reprise::weights
