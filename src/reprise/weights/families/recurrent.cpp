// Models with recurrent layers: Mamba, Mamba-2, Bamba, Falcon-H1, Granite 4, Qwen3-Next, Qwen3.5
// and LFM2.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string>

#include "reprise/weights/config/token_limits.h"
#include "reprise/weights/families/family_config.h"
#include "reprise/weights/tensor_spec.h"

namespace reprise::weights {
namespace {

// Published models have up to 256 heads of 128 values, and states of up to 256.
constexpr int64_t kMaxStateHeads = 4096;
constexpr int64_t kMaxStateHeadDim = 1024;
constexpr int64_t kMaxStateSize = 1024;
constexpr int64_t kMaxConvKernel = 16;      // published models have 4
constexpr int64_t kMaxExpand = 16;          // published models have 2
constexpr int64_t kMaxTimeStepRank = 1024;  // published models have up to 256
constexpr int64_t kMaxFeatures = 1 << 20;   // of a layer's values
// Mamba's configs contain no length limit, because the state has the same size for all lengths.
constexpr int64_t kPositionsOfMamba = int64_t{1} << 15;

// The names of the members for sizes, which differ in the families.
struct RecurrentKeys {
  std::string_view num_heads;
  std::string_view head_dim;
  std::string_view state_size;
  std::string_view num_groups;
  std::string_view conv_kernel;
  std::string_view expand;
  std::string_view conv_bias;
  std::string_view proj_bias;
};
constexpr RecurrentKeys kMamba2Keys = {.num_heads = "num_heads",
                                       .head_dim = "head_dim",
                                       .state_size = "state_size",
                                       .num_groups = "n_groups",
                                       .conv_kernel = "conv_kernel",
                                       .expand = "expand",
                                       .conv_bias = "use_conv_bias",
                                       .proj_bias = "use_bias"};
constexpr RecurrentKeys kHybridKeys = {.num_heads = "mamba_n_heads",
                                       .head_dim = "mamba_d_head",
                                       .state_size = "mamba_d_state",
                                       .num_groups = "mamba_n_groups",
                                       .conv_kernel = "mamba_d_conv",
                                       .expand = "mamba_expand",
                                       .conv_bias = "mamba_conv_bias",
                                       .proj_bias = "mamba_proj_bias"};

// There are kernels only for this function after the convolution.
void require_silu(const FamilyConfig& in) {
  read_activation(in);
  if (in.config.activation == Activation::silu) return;
  in.reader.fail("hidden_act", "only silu is supported by recurrent layers");
}

bool is_infinity(const Json& value) {
  const Json* text = &value;
  if (value.is_object() && value.contains("__float__")) text = &value["__float__"];
  return *text == "Infinity" || *text == "inf";
}

// Time steps are positive, so the range [0, infinity] is no limit.
void require_no_time_step_limit(const FamilyConfig& in) {
  const Json* limit = in.reader.find("time_step_limit");
  if (limit == nullptr) return;
  const bool is_open = limit->is_array() && limit->size() == 2 && limit->at(0).is_number() &&
                       limit->at(0) == 0.0 && is_infinity(limit->at(1));
  if (!is_open) {
    in.reader.fail("time_step_limit",
                   fmt::format("only [0, Infinity] is supported, got {}", visible(limit->dump())));
  }
}

void require_divides(const FamilyConfig& in,
                     std::string_view key,
                     int64_t divisor,
                     std::string_view other_key,
                     int64_t number) {
  if (number % divisor == 0) return;
  in.reader.fail(key, fmt::format("{} does not divide {} {}", divisor, other_key, number));
}

/// `value_size`: the size of all heads together; not given: the hidden size times the member
/// `expand`.
RecurrentConfig read_mamba2_layers(const FamilyConfig& in,
                                   const RecurrentKeys& keys,
                                   std::optional<int64_t> value_size = {}) {
  const ConfigReader& reader = in.reader;
  RecurrentConfig layers{.recurrence = Recurrence::mamba2};
  layers.num_heads = reader.required_integer(keys.num_heads, 1, kMaxStateHeads);
  layers.state_size = reader.required_integer(keys.state_size, 1, kMaxStateSize);
  layers.num_groups = reader.required_integer(keys.num_groups, 1, kMaxStateHeads);
  layers.conv_kernel = reader.required_integer(keys.conv_kernel, 2, kMaxConvKernel);
  layers.conv_bias = reader.boolean(keys.conv_bias).value_or(true);
  layers.proj_bias = reader.boolean(keys.proj_bias).value_or(false);
  const int64_t values = value_size.value_or(
      reader.integer(keys.expand, 1, kMaxExpand).value_or(2) * in.config.hidden_size);
  require_divides(in, keys.num_groups, layers.num_groups, keys.num_heads, layers.num_heads);
  const Json* head_dim = reader.find(keys.head_dim);
  if (head_dim == nullptr || *head_dim == "auto") {
    require_divides(in, keys.num_heads, layers.num_heads, "expand * hidden_size", values);
    layers.head_dim = values / layers.num_heads;
  } else {
    layers.head_dim = reader.required_integer(keys.head_dim, 1, kMaxStateHeadDim);
  }
  if (layers.head_dim > kMaxStateHeadDim || layers.value_size() != values) {
    reader.fail(
        keys.head_dim,
        fmt::format("{} heads of {} are not the {} values of {}",
                    layers.num_heads,
                    layers.head_dim,
                    values,
                    value_size ? "mamba_d_ssm" : fmt::format("{} * hidden_size", keys.expand)));
  }
  require_no_time_step_limit(in);
  return layers;
}

void read_sizes_of_mamba(const FamilyConfig& in) {
  read_sizes(in,
             {.norm_eps = "layer_norm_epsilon",
              .default_norm_eps = 1e-5,
              .default_max_positions = kPositionsOfMamba,
              .has_default_intermediate_size = true,
              .has_attention = false});
  ModelConfig& config = in.config;
  config.has_mlp = false;
  config.rope = {.type = RopeType::none};
  config.layer_types.assign(config.layer_types.size(), LayerType::linear_attention);
}

// `key` has one entry for each layer. Older configs call the types "mamba" and "attention",
// and LFM2 calls its short convolutions "conv".
void read_hybrid_layer_types(const FamilyConfig& in, std::string_view key) {
  ModelConfig& config = in.config;
  const Json& listed = *in.reader.find(key);
  if (!listed.is_array() || listed.size() != config.layer_types.size()) {
    in.reader.fail(
        key, fmt::format("must be a list of num_hidden_layers = {}", config.num_hidden_layers));
  }
  for (size_t layer = 0; layer < config.layer_types.size(); ++layer) {
    const Json& type = listed.at(layer);
    if (type == "linear_attention" || type == "mamba" || type == "conv") {
      config.layer_types[layer] = LayerType::linear_attention;
    } else if (type == "full_attention" || type == "attention") {
      config.layer_types[layer] = LayerType::full_attention;
    } else {
      in.reader.fail(key,
                     fmt::format("'{}' is not supported; supported: full_attention, "
                                 "linear_attention",
                                 visible(type.dump())));
    }
  }
}

// `key` lists the layers that have attention.
void read_attention_layers(const FamilyConfig& in, std::string_view key) {
  ModelConfig& config = in.config;
  const int64_t num_layers = config.num_hidden_layers;
  config.layer_types.assign(config.layer_types.size(), LayerType::linear_attention);
  for (const int64_t layer :
       in.reader.integers(key, 0, num_layers - 1, static_cast<size_t>(num_layers))) {
    config.layer_types[static_cast<size_t>(layer)] = LayerType::full_attention;
  }
}

// Two thirds of the size that the config names, times a factor, rounded up to a multiple.
int64_t adjusted_size_of_lfm2(const FamilyConfig& in) {
  const int64_t size = in.config.intermediate_size;
  if (!in.reader.boolean("block_auto_adjust_ff_dim").value_or(true)) return size;
  const double factor = in.reader.number("block_ffn_dim_multiplier", 0.01, 16).value_or(1.0);
  const int64_t multiple = in.reader.integer("block_multiple_of", 1, 1 << 16).value_or(256);
  const int64_t two_thirds = 2 * size / 3;
  const auto scaled = static_cast<int64_t>(factor * static_cast<double>(two_thirds));
  return (scaled + multiple - 1) / multiple * multiple;
}

void read_any_lfm2(const FamilyConfig& in, std::string_view size_key) {
  const ConfigReader& reader = in.reader;
  read_sizes(in, {.intermediate_size = size_key, .norm_eps = "norm_eps", .default_norm_eps = 1e-5});
  read_heads(in);
  ModelConfig& config = in.config;
  config.qk_norm = QkNorm::per_head;
  const bool has_bias = reader.boolean("conv_bias").value_or(false);
  config.recurrent =
      RecurrentConfig{.recurrence = Recurrence::short_conv,
                      .conv_kernel = reader.required_integer("conv_L_cache", 2, kMaxConvKernel),
                      .num_heads = config.hidden_size,
                      .head_dim = 1,
                      .conv_bias = has_bias,
                      .proj_bias = has_bias};
  if (reader.find("layer_types") != nullptr) {
    read_hybrid_layer_types(in, "layer_types");
  } else {
    read_attention_layers(in, "full_attn_idxs");
  }
  read_rope(in, {.default_theta = 1e6});
  const bool is_tied = reader.boolean("tie_embedding").value_or(true);
  read_tied_embeddings(in, is_tied);
}

// Every n-th layer has attention; the other layers have a gated delta net.
void read_qwen3_hybrid(const FamilyConfig& in, bool has_experts) {
  const ConfigReader& reader = in.reader;
  require_silu(in);
  read_sizes(in, {.has_default_intermediate_size = has_experts});
  read_heads(in, 256);
  ModelConfig& config = in.config;
  config.qkv_bias = config.o_bias = reader.boolean("attention_bias").value_or(false);
  config.qk_norm = QkNorm::per_head;
  config.norm = NormType::gemma_rms_norm;
  config.has_attention_gate = true;
  RecurrentConfig layers{.recurrence = Recurrence::gated_delta_net};
  layers.num_heads = reader.required_integer("linear_num_value_heads", 1, kMaxStateHeads);
  layers.num_groups = reader.required_integer("linear_num_key_heads", 1, kMaxStateHeads);
  layers.head_dim = reader.required_integer("linear_value_head_dim", 1, kMaxStateHeadDim);
  layers.state_size = reader.required_integer("linear_key_head_dim", 1, kMaxStateSize);
  layers.conv_kernel = reader.required_integer("linear_conv_kernel_dim", 2, kMaxConvKernel);
  require_divides(
      in, "linear_num_key_heads", layers.num_groups, "linear_num_value_heads", layers.num_heads);
  config.recurrent = layers;
  if (reader.find("layer_types") != nullptr) {
    read_hybrid_layer_types(in, "layer_types");
  } else {
    const int64_t period = reader.integer("full_attention_interval", 1, kMaxPositions).value_or(4);
    for (size_t layer = 0; layer < config.layer_types.size(); ++layer) {
      const bool is_full = (static_cast<int64_t>(layer) + 1) % period == 0;
      config.layer_types[layer] = is_full ? LayerType::full_attention : LayerType::linear_attention;
    }
  }
  read_rope(in,
            {.partial_factor = "partial_rotary_factor",
             .default_partial_factor = 0.25,
             .rounds_odd_up = true});
  read_tied_embeddings(in, false);
}

constexpr double kMostMultiplier = 1e6;

double read_multiplier(const FamilyConfig& in, std::string_view key) {
  return in.reader.number(key, -kMostMultiplier, kMostMultiplier).value_or(1);
}

template <size_t kCount>
std::array<double, kCount> read_multipliers(const FamilyConfig& in, std::string_view key) {
  std::array<double, kCount> multipliers;
  multipliers.fill(1);
  const Json* const listed = in.reader.find(key);
  if (listed == nullptr) return multipliers;
  const auto is_multiplier = [](const Json& value) {
    return value.is_number() && std::abs(value.get<double>()) <= kMostMultiplier;
  };
  if (!listed->is_array() || listed->size() != kCount ||
      !std::all_of(listed->begin(), listed->end(), is_multiplier)) {
    in.reader.fail(key,
                   fmt::format("expected {} numbers of at most {}, got {}",
                               kCount,
                               kMostMultiplier,
                               visible(listed->dump())));
  }
  for (size_t i = 0; i < kCount; ++i) multipliers[i] = listed->at(i).get<double>();
  return multipliers;
}

}  // namespace

void read_mamba(const FamilyConfig& in) {
  require_silu(in);
  read_sizes_of_mamba(in);
  ModelConfig& config = in.config;
  RecurrentConfig layers{.recurrence = Recurrence::mamba1, .head_dim = 1, .num_groups = 1};
  layers.num_heads = in.reader.integer("expand", 1, kMaxExpand).value_or(2) * config.hidden_size;
  if (const auto values = in.reader.integer("intermediate_size", 1, kMaxFeatures)) {
    layers.num_heads = *values;
  }
  layers.state_size = in.reader.required_integer("state_size", 1, kMaxStateSize);
  layers.conv_kernel = in.reader.required_integer("conv_kernel", 2, kMaxConvKernel);
  const Json* rank = in.reader.find("time_step_rank");
  layers.time_step_rank = rank == nullptr || *rank == "auto"
                              ? (config.hidden_size + 15) / 16
                              : in.reader.required_integer("time_step_rank", 1, kMaxTimeStepRank);
  layers.conv_bias = in.reader.boolean("use_conv_bias").value_or(true);
  layers.proj_bias = in.reader.boolean("use_bias").value_or(false);
  config.recurrent = layers;
  read_tied_embeddings(in, true);
}

void read_mamba2(const FamilyConfig& in) {
  require_silu(in);
  read_sizes_of_mamba(in);
  in.config.recurrent = read_mamba2_layers(in, kMamba2Keys);
  read_tied_embeddings(in, false);
}

void read_bamba(const FamilyConfig& in) {
  require_silu(in);
  read_sizes(in, {.default_norm_eps = 1e-5});
  read_heads(in);
  ModelConfig& config = in.config;
  config.qkv_bias = config.o_bias = in.reader.boolean("attention_bias").value_or(false);
  config.mlp_bias = in.reader.boolean("mlp_bias").value_or(false);
  config.recurrent = read_mamba2_layers(in, kHybridKeys);
  read_attention_layers(in, "attn_layer_indices");
  read_rope(in, {.partial_factor = "partial_rotary_factor", .default_partial_factor = 0.5});
  read_tied_embeddings(in, false);
}

void read_falcon_h1(const FamilyConfig& in) {
  const ConfigReader& reader = in.reader;
  require_silu(in);
  read_sizes(in, {.default_norm_eps = 1e-5});
  read_heads(in);
  ModelConfig& config = in.config;
  config.qkv_bias = config.o_bias = reader.boolean("attention_bias").value_or(false);
  config.mlp_bias = reader.boolean("mlp_bias").value_or(false);
  config.has_parallel_recurrence = true;
  // null means mamba_expand * hidden_size; a missing member means the default of the class.
  std::optional<int64_t> value_size = reader.integer("mamba_d_ssm", 1, kMaxFeatures);
  if (!reader.has("mamba_d_ssm")) value_size = 1024;
  config.recurrent = read_mamba2_layers(in, kHybridKeys, value_size);
  config.recurrent->has_norm = reader.boolean("mamba_rms_norm").value_or(false);
  config.recurrent->norms_before_gate = reader.boolean("mamba_norm_before_gate").value_or(true);
  if (reader.boolean("projectors_bias").value_or(false) != config.recurrent->proj_bias) {
    reader.fail("projectors_bias", "must be equal to mamba_proj_bias");
  }
  read_rope(in);
  read_tied_embeddings(in, false);
  config.embedding_scale = read_multiplier(in, "embedding_multiplier");
  config.logits_scale = read_multiplier(in, "lm_head_multiplier");
  // Scores are linear in the keys, so the multiplier of keys becomes part of the scale.
  config.attention_scale =
      read_multiplier(in, "key_multiplier") / std::sqrt(static_cast<double>(config.head_dim));
  const auto mlp = read_multipliers<2>(in, "mlp_multipliers");
  const auto mixer = read_multipliers<5>(in, "ssm_multipliers");
  config.multipliers = {.attention_in = read_multiplier(in, "attention_in_multiplier"),
                        .attention_out = read_multiplier(in, "attention_out_multiplier"),
                        .mixer_in = read_multiplier(in, "ssm_in_multiplier"),
                        .mixer_out = read_multiplier(in, "ssm_out_multiplier"),
                        .mlp_gate = mlp[0],
                        .mlp_out = mlp[1],
                        .gate = mixer[0],
                        .values = mixer[1],
                        .b = mixer[2],
                        .c = mixer[3],
                        .time_steps = mixer[4]};
}

void read_granite_moe_hybrid(const FamilyConfig& in) {
  const ConfigReader& reader = in.reader;
  require_silu(in);
  read_granite(in);
  ModelConfig& config = in.config;
  config.mlp_bias = false;
  const int64_t shared_size = reader.required_integer("shared_intermediate_size", 1, kMaxFeatures);
  if (reader.integer("num_local_experts", 0, kMaxFeatures).value_or(8) != 0) {
    read_experts_of_granite(in);
    config.moe->shared_intermediate_size = shared_size;
  } else {
    config.intermediate_size = shared_size;
  }
  config.recurrent = read_mamba2_layers(in, kHybridKeys);
  const bool is_old = reader.find("layer_types") == nullptr;
  if (is_old && reader.find("layers_block_type") == nullptr) {
    config.layer_types.assign(config.layer_types.size(), LayerType::linear_attention);
  } else {
    read_hybrid_layer_types(in, is_old ? "layers_block_type" : "layer_types");
  }
  const std::string positions = reader.string("position_embedding_type").value_or("nope");
  if (positions == "nope") {
    config.rope = {.type = RopeType::none};
  } else if (positions != "rope") {
    reader.fail("position_embedding_type",
                fmt::format("'{}' is not supported; supported: nope, rope", visible(positions)));
  }
}

void read_qwen3_next(const FamilyConfig& in) {
  read_qwen3_hybrid(in, true);
  read_experts_of_qwen(in);
  in.config.moe->renormalises = in.reader.boolean("norm_topk_prob").value_or(true);
}

void read_qwen3_5(const FamilyConfig& in) { read_qwen3_hybrid(in, false); }

void read_qwen3_5_moe(const FamilyConfig& in) {
  read_qwen3_hybrid(in, true);
  read_experts_of_qwen(in);
  in.config.moe->renormalises = true;
}

void read_lfm2(const FamilyConfig& in) {
  const bool has_old_key = in.reader.find("block_ff_dim") != nullptr;
  read_any_lfm2(in, has_old_key ? "block_ff_dim" : "intermediate_size");
  in.config.intermediate_size = adjusted_size_of_lfm2(in);
}

void read_lfm2_moe(const FamilyConfig& in) {
  read_any_lfm2(in, "intermediate_size");
  ModelConfig& config = in.config;
  require_boolean(in, "use_expert_bias", true);
  require_boolean(in, "norm_topk_prob", true);
  config.moe = read_experts(in, "num_experts", "moe_intermediate_size", 4);
  config.moe->scores = RouterScores::sigmoid_with_bias;
  config.moe->renormalises = true;
  config.moe->routed_scale = in.reader.number("routed_scaling_factor", 1e-6, 1e6).value_or(1);
  const int64_t num_dense = in.reader.integer("num_dense_layers", 0, kMaxPositions).value_or(2);
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    config.moe_layers.push_back(layer >= num_dense);
  }
}

}  // namespace reprise::weights
