// MiMo-V2-Flash: layers with a window have twice as many key/value heads as other layers and a sink
// for each head; heads of v are smaller than heads of k; the experts are those of DeepSeek-V3.
#include <fmt/format.h>

#include <string>
#include <string_view>
#include <vector>

#include "reprise/weights/config/token_limits.h"
#include "reprise/weights/families/family_config.h"

namespace reprise::weights {
namespace {

constexpr int64_t kHeadsInWindows = 2;  // times as many key/value heads
constexpr double kMostValueScale = 1e6;

// Published configs write these members, although the class of Transformers does not read them: it
// supports only these values.
void require_members_of_mimo(const FamilyConfig& in) {
  const ModelConfig& config = in.config;
  const auto require = [&](std::string_view key, int64_t only) {
    const auto value = in.reader.integer(key, 0, kMaxPositions);
    if (value && *value != only) {
      in.reader.fail(key, fmt::format("is {}, only {} is supported here", *value, only));
    }
  };
  require("swa_num_attention_heads", config.num_attention_heads);
  require("swa_num_key_value_heads", config.num_key_value_heads);
  require("swa_head_dim", config.head_dim);
  require("swa_v_head_dim", config.value_head_dim);
  require("n_shared_experts", 0);
  require_boolean(in, "add_swa_attention_sink_bias", true);
  require_boolean(in, "add_full_attention_sink_bias", false);
}

void read_heads_of_mimo(const FamilyConfig& in) {
  ModelConfig& config = in.config;
  read_heads(in, 192);
  const KeyValueHeads full = {.count = config.num_key_value_heads, .head_dim = config.head_dim};
  config.num_key_value_heads *= kHeadsInWindows;
  if (config.num_attention_heads % config.num_key_value_heads != 0) {
    in.reader.fail("num_key_value_heads",
                   fmt::format("layers with a window have twice as many, {}, which do not divide "
                               "num_attention_heads {}",
                               config.num_key_value_heads,
                               config.num_attention_heads));
  }
  config.full_heads = full;
  config.value_head_dim = in.reader.integer("v_head_dim", 1, config.head_dim).value_or(128);
  if (config.value_head_dim > config.head_dim) {
    in.reader.fail("v_head_dim", fmt::format("is more than head_dim {}", config.head_dim));
  }
  config.has_attention_sinks = config.has_sinks_in_windows = true;
  config.qkv_bias = in.reader.boolean("attention_bias").value_or(false);
  // null: values stay as they are.
  const auto scale = in.reader.number("attention_value_scale", -kMostValueScale, kMostValueScale);
  config.value_scale = scale.value_or(in.reader.has("attention_value_scale") ? 1.0 : 0.707);
}

// The first layer and every sixth layer see all tokens, unless a list says otherwise.
void read_windows_of_mimo(const FamilyConfig& in) {
  constexpr int64_t kPeriod = 6;
  const auto before = in.reader.integer("sliding_window_size", 1, kMaxPositions - 1);
  const auto window = in.reader.integer("sliding_window", 1, kMaxPositions);
  // This member does not count the token itself.
  use_window_except_every(in, before ? *before + 1 : window.value_or(129), kPeriod);
  std::vector<LayerType>& types = in.config.layer_types;
  types.front() = LayerType::full_attention;
  constexpr std::string_view kPattern = "hybrid_layer_pattern";
  (void)find_layer_list(in, kPattern);
  const std::vector<int64_t> slides = in.reader.integers(kPattern, 0, 1, types.size());
  for (size_t layer = 0; layer < slides.size(); ++layer) {
    types[layer] = slides[layer] == 1 ? LayerType::sliding_attention : LayerType::full_attention;
  }
  read_layer_types(in);
}

}  // namespace

void read_mimo_v2(const FamilyConfig& in) {
  read_activation(in);
  const bool has_older_name = in.reader.find("rms_norm_eps") == nullptr;
  read_sizes(in,
             {.norm_eps = has_older_name ? "layernorm_epsilon" : "rms_norm_eps",
              .default_norm_eps = 1e-5});
  read_heads_of_mimo(in);
  read_windows_of_mimo(in);
  const RopeKeys full = {.default_theta = 5e6,
                         .partial_factor = "partial_rotary_factor",
                         .default_partial_factor = 0.334,
                         .rounds_odd_up = true};
  RopeKeys sliding = full;
  sliding.theta = "swa_rope_theta";
  sliding.default_theta = 1e4;
  read_rope_by_layer_type(in, full, sliding);
  read_experts_of_deepseek(in, RouterScores::sigmoid_with_bias, {.num_dense = 1});
  read_mlp_layer_types(in);
  require_members_of_mimo(in);
  read_tied_embeddings(in, false);
}

}  // namespace reprise::weights
