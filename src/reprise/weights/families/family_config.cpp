#include "reprise/weights/families/family_config.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "reprise/weights/config/token_limits.h"
#include "reprise/weights/tensor_spec.h"

namespace reprise::weights {
namespace {

constexpr int64_t kMaxHeadDim = 1024;
// Published multipliers lie between 0.01 and 100, published caps between 15 and 50.
constexpr double kMaxMultiplier = 1e6;

LayerType read_layer_type(const ConfigReader& reader, const Json& value) {
  if (value == "full_attention") return LayerType::full_attention;
  if (value == "sliding_attention") return LayerType::sliding_attention;
  if (value == "chunked_attention") return LayerType::chunked_attention;
  reader.fail("layer_types",
              fmt::format("'{}' is not supported; supported: full_attention, sliding_attention, "
                          "chunked_attention",
                          visible(value.is_string() ? value.get<std::string>() : value.dump())));
}

void require_even_head_dim(const FamilyConfig& in, std::string_view key) {
  if (in.config.head_dim % 2 != 0 || in.config.head_dim < 2 || in.config.head_dim > kMaxHeadDim) {
    in.reader.fail(
        key, fmt::format("must be even and at most {}, got {}", kMaxHeadDim, in.config.head_dim));
  }
}

void require_divisible_hidden_size(const FamilyConfig& in, std::string_view key) {
  if (in.config.hidden_size % in.config.num_attention_heads == 0) return;
  in.reader.fail(key,
                 fmt::format("{} does not divide hidden_size {} and head_dim is not given",
                             in.config.num_attention_heads,
                             in.config.hidden_size));
}

}  // namespace

void read_sizes(const FamilyConfig& in, const SizeKeys& keys) {
  const ConfigReader& reader = in.reader;
  ModelConfig& config = in.config;
  config.hidden_size = reader.required_integer(keys.hidden_size, 1, kMaxHiddenSize);
  const auto intermediate = reader.integer(keys.intermediate_size, 1, kMaxIntermediateSize);
  if (!intermediate && !keys.has_default_intermediate_size) {
    (void)reader.required_integer(keys.intermediate_size, 1, kMaxIntermediateSize);
  }
  config.intermediate_size = intermediate.value_or(4 * config.hidden_size);
  config.num_hidden_layers = keys.num_layers > 0
                                 ? keys.num_layers
                                 : reader.required_integer(keys.num_hidden_layers, 1, kMaxLayers);
  const auto positions = reader.integer(keys.max_position_embeddings, 1, kMaxPositions);
  config.max_position_embeddings =
      positions || keys.default_max_positions == 0
          ? reader.required_integer(keys.max_position_embeddings, 1, kMaxPositions)
          : keys.default_max_positions;
  // 0 is legal in principle but divides by zero on a zero row; 1 already drowns the signal.
  config.norm_eps = reader.number(keys.norm_eps, 1e-30, 1.0).value_or(keys.default_norm_eps);
  if (keys.has_attention) {
    config.num_attention_heads = reader.required_integer(keys.num_attention_heads, 1, kMaxHeads);
  }
  config.layer_types.assign(static_cast<size_t>(config.num_hidden_layers),
                            LayerType::full_attention);
}

void read_heads(const FamilyConfig& in, std::optional<int64_t> default_head_dim) {
  const ConfigReader& reader = in.reader;
  ModelConfig& config = in.config;
  config.num_key_value_heads =
      reader.integer("num_key_value_heads", 1, kMaxHeads).value_or(config.num_attention_heads);
  if (config.num_attention_heads % config.num_key_value_heads != 0) {
    reader.fail("num_key_value_heads",
                fmt::format("{} does not divide num_attention_heads {}",
                            config.num_key_value_heads,
                            config.num_attention_heads));
  }
  if (const auto head_dim = reader.integer("head_dim", 2, kMaxHeadDim)) {
    config.head_dim = *head_dim;
  } else if (default_head_dim) {
    config.head_dim = *default_head_dim;
  } else {
    require_divisible_hidden_size(in, "num_attention_heads");
    config.head_dim = config.hidden_size / config.num_attention_heads;
  }
  require_even_head_dim(in, "head_dim");
}

void use_plain_heads(const FamilyConfig& in, std::string_view num_heads_key) {
  require_divisible_hidden_size(in, num_heads_key);
  in.config.num_key_value_heads = in.config.num_attention_heads;
  in.config.head_dim = in.config.hidden_size / in.config.num_attention_heads;
  require_even_head_dim(in, num_heads_key);
}

void read_activation(const FamilyConfig& in,
                     std::string_view key,
                     std::string_view name_by_default) {
  // Source: transformers, activations.py (ACT2FN).
  constexpr std::array<std::pair<std::string_view, Activation>, 9> kNames = {{
      {"silu", Activation::silu},
      {"swish", Activation::silu},
      {"gelu", Activation::gelu},
      {"gelu_new", Activation::gelu_tanh},
      {"gelu_fast", Activation::gelu_tanh},
      {"gelu_pytorch_tanh", Activation::gelu_tanh},
      {"gelu_tanh", Activation::gelu_tanh},
      {"relu", Activation::relu},
      {"relu2", Activation::relu2},
  }};
  const std::string name = in.reader.string(key).value_or(std::string(name_by_default));
  for (const auto& [known, activation] : kNames) {
    if (known != name) continue;
    in.config.activation = activation;
    // Only the MLP without a gate has kernels for these functions.
    const bool is_of_gate = activation == Activation::silu;
    const bool is_of_plain = activation == Activation::relu || activation == Activation::relu2;
    if (in.config.has_gated_mlp ? is_of_plain : is_of_gate) break;
    return;
  }
  in.reader.fail(
      key,
      fmt::format("'{}' is not supported; supported: gelu, gelu_new, gelu_pytorch_tanh, {}",
                  visible(name),
                  in.config.has_gated_mlp ? "silu" : "relu, relu2"));
}

void require_silu(const FamilyConfig& in, std::string_view where) {
  read_activation(in);
  if (in.config.activation == Activation::silu) return;
  in.reader.fail("hidden_act", fmt::format("only silu is supported {}", where));
}

void use_layer_norm(const FamilyConfig& in) {
  in.config.norm = NormType::layer_norm;
  in.config.norm_bias = true;
}

void use_window_from(const FamilyConfig& in, std::optional<int64_t> window, int64_t first_layer) {
  in.config.sliding_window = window;
  if (!window) return;
  for (int64_t layer = first_layer; layer < in.config.num_hidden_layers; ++layer) {
    in.config.layer_types[static_cast<size_t>(layer)] = LayerType::sliding_attention;
  }
}

void use_window(const FamilyConfig& in, std::optional<int64_t> window) {
  use_window_from(in, window, 0);
}

void use_window_except_every(const FamilyConfig& in,
                             std::optional<int64_t> window,
                             int64_t period) {
  use_window(in, window);
  for (int64_t layer = period - 1; layer < in.config.num_hidden_layers; layer += period) {
    in.config.layer_types[static_cast<size_t>(layer)] = LayerType::full_attention;
  }
}

const Json* find_layer_list(const FamilyConfig& in, std::string_view key, int64_t num_more) {
  const Json* listed = in.reader.find(key);
  if (listed == nullptr) return nullptr;
  const auto num_layers = static_cast<size_t>(in.config.num_hidden_layers);
  const size_t with_more = num_layers + static_cast<size_t>(num_more);
  if (listed->is_array() && (listed->size() == num_layers || listed->size() == with_more)) {
    return listed;
  }
  in.reader.fail(key, fmt::format("must be a list of num_hidden_layers = {} entries", num_layers));
}

void read_layer_types(const FamilyConfig& in, int64_t num_more) {
  ModelConfig& config = in.config;
  const Json* listed = find_layer_list(in, "layer_types", num_more);
  if (listed == nullptr) return;
  for (size_t layer = 0; layer < config.layer_types.size(); ++layer) {
    config.layer_types[layer] = read_layer_type(in.reader, listed->at(layer));
    if (config.layer_types[layer] == LayerType::sliding_attention && !config.sliding_window) {
      in.reader.fail("layer_types", "has a sliding_attention layer but no sliding_window applies");
    }
    if (config.layer_types[layer] == LayerType::chunked_attention && !config.attention_chunk_size) {
      in.reader.fail("layer_types", "has a chunked_attention layer but no attention_chunk_size");
    }
  }
}

void read_rope(const FamilyConfig& in, RopeKeys keys) {
  keys.head_dim = in.config.head_dim;
  keys.max_position_embeddings = in.config.max_position_embeddings;
  in.config.rope = read_rope_parameters(in.reader, keys, in.warnings);
}

void read_rope_by_layer_type(const FamilyConfig& in, RopeKeys full, RopeKeys sliding) {
  full.layer_type = "full_attention";
  read_rope(in, full);
  Json members = Json::object();
  for (const std::string_view key :
       {sliding.theta, sliding.partial_factor, std::string_view("rope_parameters")}) {
    if (key.empty()) continue;
    if (const Json* value = in.reader.find(key)) members[std::string(key)] = *value;
  }
  sliding.layer_type = "sliding_attention";
  sliding.head_dim = in.config.head_dim;
  sliding.max_position_embeddings = in.config.max_position_embeddings;
  in.config.sliding_rope =
      read_rope_parameters(ConfigReader(members, in.reader.path()), sliding, in.warnings);
}

void read_rope_with_temperature(const FamilyConfig& in, const Json& by_default, RopeKeys keys) {
  Json members = Json::object();
  for (const char* key : {"rope_parameters", "rope_scaling", "rope_theta"}) {
    if (const Json* value = in.reader.find(key)) members[key] = *value;
  }
  if (members.empty()) members["rope_parameters"] = by_default;
  const ConfigReader reader(members, in.reader.path());
  keys.max_position_embeddings = in.config.max_position_embeddings;
  in.config.rope = read_rope_parameters(reader, keys, in.warnings);
  const auto scaling =
      reader.object(members.contains("rope_scaling") ? "rope_scaling" : "rope_parameters");
  const double beta = scaling ? scaling->number("llama_4_scaling_beta", 0, 1e6).value_or(0) : 0;
  if (beta == 0) return;
  if (in.config.rope.type != RopeType::yarn) {
    scaling->fail("llama_4_scaling_beta", "is supported with the rope type yarn alone");
  }
  const auto original = static_cast<double>(in.config.rope.original_max_position_embeddings);
  in.config.query_temperature = AttentionTemperature{.scale = beta, .floor_positions = original};
}

void read_rope_layers(const FamilyConfig& in) {
  ModelConfig& config = in.config;
  const auto num_layers = static_cast<size_t>(config.num_hidden_layers);
  const auto period = in.reader.integer("no_rope_layer_interval", 1, kMaxPositions).value_or(4);
  const std::vector<int64_t> listed =
      in.reader.integers("no_rope_layers", 0, 1, static_cast<size_t>(kMaxPositions));
  if (!listed.empty() && listed.size() != num_layers) {
    in.reader.fail("no_rope_layers", "must have one entry for each of num_hidden_layers");
  }
  for (size_t layer = 0; layer < num_layers; ++layer) {
    config.rope_layers.push_back(listed.empty() ? (static_cast<int64_t>(layer) + 1) % period != 0
                                                : listed[layer] == 1);
  }
}

void read_tied_embeddings(const FamilyConfig& in, bool by_default) {
  in.config.tie_word_embeddings = in.reader.boolean("tie_word_embeddings").value_or(by_default);
}

void require_boolean(const FamilyConfig& in, std::string_view key, bool only_value) {
  if (in.reader.boolean(key).value_or(only_value) == only_value) return;
  in.reader.fail(key, fmt::format("only {} is supported", only_value));
}

double read_multiplier(const FamilyConfig& in, std::string_view key, double by_default) {
  return in.reader.number(key, 1.0 / kMaxMultiplier, kMaxMultiplier).value_or(by_default);
}

double read_soft_cap(const FamilyConfig& in, std::string_view key, double by_default) {
  if (in.reader.has(key) && in.reader.find(key) == nullptr) return 0;  // null: no cap
  return in.reader.number(key, 1.0 / kMaxMultiplier, kMaxMultiplier).value_or(by_default);
}

}  // namespace reprise::weights
