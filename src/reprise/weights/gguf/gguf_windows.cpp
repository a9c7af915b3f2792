#include "reprise/weights/gguf/gguf_windows.h"

#include <fmt/format.h>

#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "reprise/weights/gguf/gguf_deepseek.h"
#include "reprise/weights/gguf/gguf_experts.h"

namespace reprise::weights::gguf {
namespace {

constexpr std::string_view kPattern = "attention.sliding_window_pattern";

/// A number for all layers without a window, and one for all layers with a window. Nothing: the
/// model has no such layer.
struct ByWindow {
  std::optional<int64_t> full;
  std::optional<int64_t> sliding;
};

ByWindow numbers_by_window(const ArchitectureKeys& keys, std::string_view name) {
  const int64_t num_blocks = keys.required("block_count");
  const std::vector<int64_t> slides = keys.integers(kPattern, num_blocks);
  const std::vector<int64_t> numbers = keys.integers(name, num_blocks);
  ByWindow found;
  for (size_t layer = 0; std::cmp_less(layer, keys.num_layers()); ++layer) {
    std::optional<int64_t>& number = slides[layer] != 0 ? found.sliding : found.full;
    if (number.value_or(numbers[layer]) != numbers[layer]) {
      keys.fail(name,
                fmt::format("is {} and {} in layers {} a window; only one number is supported",
                            *number,
                            numbers[layer],
                            slides[layer] != 0 ? "with" : "without"));
    }
    number = numbers[layer];
  }
  return found;
}

// Reads the window, which layers have it, the size of heads, and which layers have experts: those
// with a router, as in llama.cpp.
void read_layers(const ArchitectureKeys& keys, const GgufConfigTraits& traits, Json& config) {
  const std::vector<int64_t> slides = keys.integers(kPattern, keys.required("block_count"));
  config["layer_types"] = config["mlp_layer_types"] = Json::array();
  for (int64_t layer = 0; layer < keys.num_layers(); ++layer) {
    const bool has_window = slides[static_cast<size_t>(layer)] != 0;
    config["layer_types"].push_back(has_window ? "sliding_attention" : "full_attention");
    const bool has_experts = traits.layers_with_router.contains(layer);
    config["mlp_layer_types"].push_back(has_experts ? "sparse" : "dense");
  }
  config["sliding_window"] = keys.required("attention.sliding_window");
  config["head_dim"] = keys.required("attention.key_length");
  for (const std::string_view name : {"attention.key_length_swa", "attention.value_length_swa"}) {
    const std::string_view of_all = name.substr(0, name.size() - std::string_view("_swa").size());
    const auto other = keys.integer(name);
    if (other && other != keys.integer(of_all)) {
      keys.fail(name, fmt::format("is {}, only that of the other layers is supported", *other));
    }
  }
}

// The rotated elements of a head are its first ones.
Json rotation(const ArchitectureKeys& keys,
              std::string_view key,
              double theta,
              int64_t rotated,
              int64_t head_dim) {
  if (rotated < 1 || rotated > head_dim) {
    keys.fail(key, fmt::format("rotates {} of the {} elements of a head", rotated, head_dim));
  }
  // The reader rounds the product of factor and size down; half an element more keeps it above.
  const double factor = rotated == head_dim
                            ? 1.0
                            : (static_cast<double>(rotated) + 0.5) / static_cast<double>(head_dim);
  return {{"rope_type", "default"}, {"rope_theta", theta}, {"partial_rotary_factor", factor}};
}

/// `divisor`: layers without a window rotate only 1/divisor of the elements that the key names.
void read_rotations(const ArchitectureKeys& keys, int64_t divisor, Json& config) {
  if (config.contains("rope_scaling")) {
    keys.fail("rope.scaling.type", "a scaling is not supported in this architecture");
  }
  constexpr std::string_view kCount = "rope.dimension_count";
  constexpr std::string_view kCountInWindows = "rope.dimension_count_swa";
  const auto head_dim = config["head_dim"].get<int64_t>();
  const int64_t rotated = keys.integer(kCount).value_or(head_dim);
  const int64_t in_windows = keys.integer(kCountInWindows).value_or(rotated);
  const auto theta = config["rope_theta"].get<double>();
  config.erase("rope_theta");
  config["rope_parameters"] = {
      {"full_attention", rotation(keys, kCount, theta, rotated / divisor, head_dim)},
      {"sliding_attention",
       rotation(keys,
                kCountInWindows,
                keys.number("rope.freq_base_swa").value_or(theta),
                in_windows,
                head_dim)}};
}

// The limits of all layers; null if no layer has one. As in llama.cpp, 0 means no limit.
Json limits_of_layers(const ArchitectureKeys& keys, std::string_view name) {
  if (!keys.has(name)) return nullptr;
  std::vector<double> limits = keys.numbers(name, keys.required("block_count"));
  limits.resize(static_cast<size_t>(keys.num_layers()));
  return limits;
}

}  // namespace

// Without attention.value_scale values are not scaled, as in llama.cpp.
void read_mimo2(const ArchitectureKeys& keys, const GgufConfigTraits& traits, Json& config) {
  read_layers(keys, traits, config);
  config["num_attention_heads"] = keys.required("attention.head_count");
  config["v_head_dim"] = keys.required("attention.value_length");
  constexpr std::string_view kKeyValueHeads = "attention.head_count_kv";
  const ByWindow heads = numbers_by_window(keys, kKeyValueHeads);
  const int64_t full = heads.full.value_or(heads.sliding.value_or(0) / 2);
  if (heads.sliding && *heads.sliding != 2 * full) {
    keys.fail(kKeyValueHeads,
              fmt::format("is {} in layers with a window and {} in the others; only twice as many "
                          "are supported",
                          *heads.sliding,
                          full));
  }
  config["num_key_value_heads"] = full;
  const double scale = keys.number("attention.value_scale").value_or(0);
  config["attention_value_scale"] = scale == 0 ? 1.0 : scale;
  require_sigmoid_router(keys);
  read_experts_of_deepseek(keys, config);
  config["norm_topk_prob"] = true;
  read_rotations(keys, 1, config);
}

// Layers without a window rotate half as many elements as the other layers.
void read_step35(const ArchitectureKeys& keys, const GgufConfigTraits& traits, Json& config) {
  read_layers(keys, traits, config);
  constexpr std::string_view kValues = "attention.value_length";
  if (keys.integer(kValues).value_or(config["head_dim"].get<int64_t>()) != config["head_dim"]) {
    keys.fail(kValues, "only attention.key_length is supported");
  }
  const ByWindow heads = numbers_by_window(keys, "attention.head_count");
  config["num_attention_heads"] = heads.full ? *heads.full : *heads.sliding;
  config["num_sliding_attention_heads"] = heads.sliding ? *heads.sliding : *heads.full;
  config["num_key_value_heads"] = keys.required("attention.head_count_kv");
  require_sigmoid_router(keys);
  constexpr std::string_view kNormed = "expert_weights_norm";
  if (!keys.boolean(kNormed).value_or(false)) {
    keys.fail(kNormed, "is not true; only weights of experts that sum to one are supported");
  }
  config["share_expert_dim"] = keys.required("expert_shared_feed_forward_length");
  config["moe_router_scaling_factor"] = expert_scale(keys);
  config["swiglu_limits"] = limits_of_layers(keys, "swiglu_clamp_exp");
  config["swiglu_limits_shared"] = limits_of_layers(keys, "swiglu_clamp_shexp");
  read_rotations(keys, 2, config);
}

}  // namespace reprise::weights::gguf
