// Gemma 4 (text).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "reprise/weights/config/token_limits.h"
#include "reprise/weights/families/family_config.h"
#include "reprise/weights/tensor_spec.h"

namespace reprise::weights {
namespace {

constexpr int64_t kMaxGlobalHeadDim = 1024;      // published models have 512
constexpr int64_t kMaxGlobalHeads = 1024;        // published models have up to 16
constexpr int64_t kMaxLayerInputSize = 1 << 14;  // published models have 256

// Transformers 5 writes `per_layer_config` instead of the members of published configs: for each
// full layer, the members that differ from those of the other layers.
ConfigReader members_of_full_layers(const FamilyConfig& in) {
  const ConfigReader& reader = in.reader;
  constexpr std::string_view kKey = "per_layer_config";
  const Json* listed = reader.find(kKey);
  if (listed == nullptr) return reader;
  if (!listed->is_object()) reader.fail(kKey, "must be an object");
  const Json* members = nullptr;
  int64_t num_layers = 0;
  for (const auto& [name, value] : listed->items()) {
    const bool is_number = !name.empty() && name.size() < 6 &&
                           std::ranges::all_of(name, [](char c) { return c >= '0' && c <= '9'; });
    const int64_t layer = is_number ? std::stoll(name) : -1;
    if (layer < 0 || layer >= in.config.num_hidden_layers || in.config.window_of_layer(layer)) {
      reader.fail(kKey, fmt::format("'{}' is not the number of a full layer", visible(name)));
    }
    if (members != nullptr && *members != value)
      reader.fail(kKey, "must be the same for all layers");
    if (!value.is_object()) reader.fail(kKey, "must have an object for each layer");
    for (const auto& [key, unused] : value.items()) {
      if (key == "head_dim" || key == "num_key_value_heads") continue;
      reader.fail(kKey,
                  fmt::format("'{}' is not supported; supported: head_dim, num_key_value_heads",
                              visible(key)));
    }
    members = &value;
    ++num_layers;
  }
  if (num_layers != std::ranges::count(in.config.layer_types, LayerType::full_attention)) {
    reader.fail(kKey, "must have an object for each full layer");
  }
  return {*members, reader.path(), "per_layer_config."};
}

// Reads the heads of full layers. All other layers have num_key_value_heads of head_dim.
void read_full_heads(const FamilyConfig& in) {
  ModelConfig& config = in.config;
  const Json* written = in.reader.find("per_layer_config");
  if (written != nullptr && written->is_object() && written->empty()) return;
  const bool is_written_again = written != nullptr;
  const ConfigReader reader = members_of_full_layers(in);
  const std::string_view size_key = is_written_again ? "head_dim" : "global_head_dim";
  const std::string_view count_key =
      is_written_again ? "num_key_value_heads" : "num_global_key_value_heads";
  KeyValueHeads heads{.count = config.num_key_value_heads,
                      .head_dim = reader.integer(size_key, 2, kMaxGlobalHeadDim)
                                      .value_or(is_written_again ? config.head_dim : 512)};
  // Published configs always contain the number; the class reads it only if keys and values share a
  // projection.
  const auto count = reader.integer(count_key, 1, kMaxGlobalHeads);
  if (is_written_again || config.full_values_are_keys) heads.count = count.value_or(heads.count);
  if (heads.head_dim % 2 != 0) {
    reader.fail(size_key, fmt::format("must be even, got {}", heads.head_dim));
  }
  if (config.num_attention_heads % heads.count != 0) {
    reader.fail(
        count_key,
        fmt::format(
            "{} does not divide num_attention_heads {}", heads.count, config.num_attention_heads));
  }
  const KeyValueHeads others{.count = config.num_key_value_heads, .head_dim = config.head_dim};
  if (heads != others) config.full_heads = heads;
}

// "Proportional" rotation: the first pairs of a head have the frequencies that they would have if
// the whole head were rotated, and the other pairs do not rotate. Here the other pairs have an
// infinite factor, so that their frequency is 0. Source: transformers 5.24, modeling_rope_utils.py.
RopeParameters proportional_rope(const ConfigReader& members, int64_t head_dim) {
  RopeParameters rope{.type = RopeType::factors};
  rope.theta = members.number("rope_theta", 1.0, 1e12).value_or(1e6);
  const double part = members.number("partial_rotary_factor", 0.0, 1.0).value_or(1.0);
  const double factor = members.number("factor", 1.0, 1e6).value_or(1.0);
  const auto pairs = static_cast<size_t>(part * static_cast<double>(head_dim) / 2);
  rope.frequency_factors.assign(static_cast<size_t>(head_dim / 2),
                                std::numeric_limits<double>::infinity());
  std::fill_n(rope.frequency_factors.begin(), pairs, factor);
  return rope;
}

void read_rope_of_gemma4(const FamilyConfig& in) {
  ModelConfig& config = in.config;
  if (in.reader.find("rope_scaling") != nullptr) {
    in.reader.fail("rope_scaling", "is not supported in this class; use rope_parameters");
  }
  static const Json kDefaults = {
      {"rope_parameters",
       {{"full_attention",
         {{"rope_type", "proportional"}, {"partial_rotary_factor", 0.25}, {"rope_theta", 1e6}}},
        {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 1e4}}}}}};
  const bool is_given = in.reader.find("rope_parameters") != nullptr;
  const ConfigReader defaults(kDefaults, in.reader.path());
  const ConfigReader& reader = is_given ? in.reader : defaults;
  const auto read = [&](std::string_view layer_type, int64_t head_dim) {
    const std::optional<ConfigReader> by_type = reader.object("rope_parameters");
    const std::optional<ConfigReader> members = by_type->object(layer_type);
    if (!members) by_type->fail(layer_type, "is required: the rotation of these layers");
    if (members->string("rope_type") == "proportional")
      return proportional_rope(*members, head_dim);
    return read_rope_parameters(reader,
                                {.head_dim = head_dim,
                                 .max_position_embeddings = config.max_position_embeddings,
                                 .layer_type = layer_type},
                                in.warnings);
  };
  const KeyValueHeads full = config.full_heads.value_or(KeyValueHeads{.head_dim = config.head_dim});
  config.rope = read("full_attention", full.head_dim);
  if (config.sliding_window) config.sliding_rope = read("sliding_attention", config.head_dim);
}

void read_shared_layers(const FamilyConfig& in) {
  ModelConfig& config = in.config;
  constexpr std::string_view kKey = "num_kv_shared_layers";
  config.num_kv_shared_layers =
      in.reader.integer(kKey, 0, config.num_hidden_layers - 1).value_or(0);
  const auto end = config.layer_types.end() - config.num_kv_shared_layers;
  for (auto type = end; type != config.layer_types.end(); ++type) {
    if (std::find(config.layer_types.begin(), end, *type) != end) continue;
    in.reader.fail(kKey, "each of these layers needs a layer of its type before them");
  }
  config.doubles_shared_mlps = in.reader.boolean("use_double_wide_mlp").value_or(false);
}

// Reads the members that both classes of Gemma 4 have.
void read_any_gemma4(const FamilyConfig& in, int64_t default_window) {
  const ConfigReader& reader = in.reader;
  ModelConfig& config = in.config;
  read_activation(in, "hidden_activation", "gelu_pytorch_tanh");
  read_sizes(in);
  read_heads(in, 256);
  config.qkv_bias = config.o_bias = reader.boolean("attention_bias").value_or(false);
  config.embedding_scale = std::sqrt(static_cast<double>(config.hidden_size));
  config.attention_scale = 1;
  config.qk_norm = QkNorm::per_head;
  config.has_value_norm = true;
  config.has_layer_scalars = true;
  config.full_values_are_keys = reader.boolean("attention_k_eq_v").value_or(false);
  config.logits_soft_cap = read_soft_cap(in, "final_logit_softcapping", 0);
  // "vision": only the tokens of an image see each other in both directions.
  if (reader.string("use_bidirectional_attention").value_or("vision") != "vision") {
    reader.fail("use_bidirectional_attention", "only null and 'vision' are supported");
  }
  const auto window = reader.integer("sliding_window", 1, kMaxPositions);
  use_window_except_every(in, window.value_or(default_window), 6);
  read_layer_types(in);
  if (config.layer_types.back() != LayerType::full_attention) {
    config.layer_types.back() = LayerType::full_attention;
    in.warnings.emplace_back("layer_types: the last layer is a full one in this class");
  }
  read_shared_layers(in);
  read_full_heads(in);
  read_rope_of_gemma4(in);
  read_tied_embeddings(in, true);
}

}  // namespace

void read_gemma4_unified(const FamilyConfig& in) { read_any_gemma4(in, 1024); }

void read_gemma4(const FamilyConfig& in) {
  read_any_gemma4(in, 512);
  ModelConfig& config = in.config;
  config.hidden_size_per_layer_input =
      in.reader.integer("hidden_size_per_layer_input", 0, kMaxLayerInputSize).value_or(256);
  constexpr std::string_view kVocabulary = "vocab_size_per_layer_input";
  const int64_t vocab_size = in.reader.integer(kVocabulary, 1, int64_t{1} << 21).value_or(262144);
  if (config.hidden_size_per_layer_input > 0 && vocab_size != config.vocab_size) {
    in.reader.fail(kVocabulary, fmt::format("must be equal to vocab_size {}", config.vocab_size));
  }
  if (!in.reader.boolean("enable_moe_block").value_or(false)) return;
  config.moe = read_experts(in, "num_experts", "moe_intermediate_size", 8, "top_k_experts");
  config.moe->is_beside_mlp = true;
  config.moe->renormalises = true;
  config.moe_layers.assign(config.layer_types.size(), true);
}

}  // namespace reprise::weights
