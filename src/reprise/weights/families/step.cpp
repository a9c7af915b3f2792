// Step 3.5 and 3.7, the text model: layers with a window have more heads than other layers, a
// projection gives a gate for each head, and in some layers the results inside MLPs and experts are
// limited.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reprise/weights/config/token_limits.h"
#include "reprise/weights/families/family_config.h"
#include "reprise/weights/tensor_spec.h"

namespace reprise::weights {
namespace {

constexpr int64_t kMaxStepHeads = 1024;
constexpr int64_t kMaxSharedExpert = int64_t{1} << 20;
constexpr int64_t kMaxMtpLayers = 64;
constexpr double kMostLimit = 1e6;
constexpr double kMostScale = 1e6;

// The name that the config uses: this one, or the name in older configs.
std::string_view given_name(const FamilyConfig& in, std::string_view name, std::string_view older) {
  return in.reader.find(name) == nullptr && in.reader.find(older) != nullptr ? older : name;
}

// Lists may also have entries for the layers for multi-token prediction, after those of the other
// layers.
int64_t num_mtp_layers(const FamilyConfig& in) {
  const std::string_view key = given_name(in, "num_nextn_predict_layers", "num_mtp_layers");
  return in.reader.integer(key, 0, kMaxMtpLayers).value_or(0);
}

// Published configs write these members, although the class of Transformers does not read them: it
// supports only these values.
void require_members_of_step(const FamilyConfig& in) {
  for (const char* key : {"use_head_wise_attn_gate",
                          "use_qk_norm",
                          "use_moe_router_bias",
                          "norm_expert_weight",
                          "zero_centered"}) {
    require_boolean(in, key, true);
  }
  for (const char* key : {"sink", "mlp_bias", "use_bidirectional_attention"}) {
    require_boolean(in, key, false);
  }
  if (in.reader.string("moe_router_activation").value_or("sigmoid") != "sigmoid") {
    in.reader.fail("moe_router_activation", "only 'sigmoid' is supported");
  }
}

int64_t heads_in_windows(const FamilyConfig& in) {
  const int64_t heads = in.config.num_attention_heads;
  if (const auto given = in.reader.integer("num_sliding_attention_heads", 1, kMaxStepHeads)) {
    return *given;
  }
  const auto older = in.reader.object("attention_other_setting");
  if (!older) return heads;
  for (const auto& [key, only] : {std::pair{"num_attention_groups", in.config.num_key_value_heads},
                                  std::pair{"head_dim", in.config.head_dim}}) {
    if (older->integer(key, 1, kMaxStepHeads).value_or(only) != only) {
      older->fail(key, fmt::format("only {}, that of the other layers, is supported", only));
    }
  }
  return older->integer("num_attention_heads", 1, kMaxStepHeads).value_or(heads);
}

void read_heads_of_step(const FamilyConfig& in) {
  ModelConfig& config = in.config;
  const std::string_view groups = given_name(in, "num_key_value_heads", "num_attention_groups");
  config.num_key_value_heads = in.reader.integer(groups, 1, kMaxStepHeads).value_or(8);
  config.head_dim = in.reader.integer("head_dim", 2, kMaxStepHeads).value_or(128);
  const int64_t full = config.num_attention_heads;
  const int64_t sliding = heads_in_windows(in);
  for (const int64_t heads : {full, sliding}) {
    if (heads % config.num_key_value_heads != 0) {
      in.reader.fail(
          groups,
          fmt::format("{} does not divide {} attention heads", config.num_key_value_heads, heads));
    }
  }
  if (config.head_dim % 2 != 0) in.reader.fail("head_dim", "must be even");
  config.num_attention_heads = sliding;
  config.num_full_attention_heads = full;
  config.qkv_bias = config.o_bias = in.reader.boolean("attention_bias").value_or(false);
  config.qk_norm = QkNorm::per_head;
  config.has_head_gates = true;
  const double size = in.reader.number("query_pre_attn_scalar", 1.0 / kMostScale, kMostScale)
                          .value_or(static_cast<double>(config.head_dim));
  config.attention_scale = 1 / std::sqrt(size);
}

// Transformers also writes the heads of each layer, although they follow from the members above:
// they must agree.
void require_heads_of_layers(const FamilyConfig& in) {
  const auto layers = in.reader.object("per_layer_config");
  if (!layers) return;
  const Json& entries = *in.reader.find("per_layer_config");
  for (int64_t layer = 0; layer < in.config.num_hidden_layers; ++layer) {
    const std::string key = fmt::to_string(layer);
    const int64_t heads = in.config.query_heads_of_layer(layer);
    const Json only = {{"num_attention_heads", heads}};
    if (entries.contains(key) && entries.at(key) != only) {
      layers->fail(key, fmt::format("only num_attention_heads {} is supported here", heads));
    }
  }
}

// The rotation of one type of layers. `rope_parameters` has an object for each type. Older configs
// have lists with an entry for each layer, and a scaling for full layers.
Json rope_of_step(const FamilyConfig& in, std::string_view type, size_t first_layer) {
  if (const auto given = in.reader.object("rope_parameters"); given && given->has(type)) {
    (void)given->object(type);
    return in.reader.find("rope_parameters")->at(std::string(type));
  }
  Json rope = Json::object();
  const auto copy = [&](std::string_view from, const char* to) {
    const Json* value = in.reader.find(from);
    if (value == nullptr) return;
    if (value->is_array()) value = &find_layer_list(in, from, num_mtp_layers(in))->at(first_layer);
    rope[to] = *value;
  };
  if (const auto scaling = in.reader.object("rope_scaling"); scaling && type == "full_attention") {
    const Json* types = scaling->find("yarn_only_types");
    if (types != nullptr && *types != Json::array({"full_attention"})) {
      scaling->fail("yarn_only_types", "only [\"full_attention\"] is supported");
    }
    rope = *in.reader.find("rope_scaling");
    rope.erase("yarn_only_types");
  }
  copy("rope_theta", "rope_theta");
  copy("partial_rotary_factors", "partial_rotary_factor");
  return rope;
}

void read_rope_of_step(const FamilyConfig& in) {
  ModelConfig& config = in.config;
  const auto read = [&](std::string_view type, LayerType layer_type) {
    const auto first = std::ranges::find(config.layer_types, layer_type);
    const auto layer = first == config.layer_types.end() ? 0 : first - config.layer_types.begin();
    const Json members = {{"rope_parameters", rope_of_step(in, type, static_cast<size_t>(layer))}};
    return read_rope_parameters(ConfigReader(members, in.reader.path()),
                                {.head_dim = config.head_dim,
                                 .max_position_embeddings = config.max_position_embeddings,
                                 .partial_factor = "partial_rotary_factor",
                                 .rounds_odd_up = true},
                                in.warnings);
  };
  config.rope = read("full_attention", LayerType::full_attention);
  config.sliding_rope = read("sliding_attention", LayerType::sliding_attention);
}

// Null and 0 mean no limit.
std::vector<double> read_swiglu_limits(const FamilyConfig& in, std::string_view key) {
  const Json* listed = find_layer_list(in, key, num_mtp_layers(in));
  std::vector<double> limits;
  if (listed == nullptr) return limits;
  for (int64_t layer = 0; layer < in.config.num_hidden_layers; ++layer) {
    const Json& value = listed->at(static_cast<size_t>(layer));
    const double limit = value.is_number() ? value.get<double>() : 0;
    const bool is_known = value.is_null() || (value.is_number() && limit >= 0);
    if (!is_known || !(limit <= kMostLimit)) {
      in.reader.fail(key,
                     fmt::format("has an entry {}, expected null or a number up to 1e6",
                                 visible(value.dump())));
    }
    limits.push_back(limit);
  }
  if (std::ranges::count(limits, 0.0) == std::ssize(limits)) limits.clear();
  return limits;
}

// `moe_layers_enum`: the layers with experts, as a list or as a text such as "3,4,5".
void read_expert_layers_of_step(const FamilyConfig& in) {
  constexpr std::string_view kKey = "moe_layers_enum";
  constexpr int64_t kDenseByDefault = 3;
  const int64_t num_layers = in.config.num_hidden_layers;
  std::vector<bool>& layers = in.config.moe_layers;
  layers.assign(static_cast<size_t>(num_layers), false);
  const Json* value = in.reader.find(kKey);
  Json listed = Json::array();
  if (value == nullptr) {
    for (int64_t layer = kDenseByDefault; layer < num_layers; ++layer) listed.push_back(layer);
  } else {
    listed = value->is_string() ? Json::parse("[" + value->get<std::string>() + "]", nullptr, false)
                                : *value;
  }
  const Json members = {{std::string(kKey), listed}};
  const int64_t most = num_layers + num_mtp_layers(in) - 1;
  for (const int64_t layer : ConfigReader(members, in.reader.path())
                                 .integers(kKey, 0, most, static_cast<size_t>(most + 1))) {
    if (layer < num_layers) layers[static_cast<size_t>(layer)] = true;
  }
  read_mlp_layer_types(in, num_mtp_layers(in));
}

void read_experts_of_step(const FamilyConfig& in) {
  ModelConfig& config = in.config;
  config.moe = read_experts(in,
                            given_name(in, "n_routed_experts", "moe_num_experts"),
                            "moe_intermediate_size",
                            8,
                            given_name(in, "num_experts_per_tok", "moe_top_k"));
  MixtureOfExperts& moe = *config.moe;
  moe.scores = RouterScores::sigmoid_with_bias;
  moe.renormalises = true;
  moe.routed_scale =
      in.reader.number("moe_router_scaling_factor", 1.0 / kMostScale, kMostScale).value_or(1);
  moe.shared_intermediate_size =
      in.reader
          .integer(given_name(in, "share_expert_dim", "share_expert_dims"), 1, kMaxSharedExpert)
          .value_or(1280);
  moe.limits = read_swiglu_limits(in, "swiglu_limits");
  config.mlp_limits = read_swiglu_limits(in, "swiglu_limits_shared");
  read_expert_layers_of_step(in);
}

}  // namespace

// The class of Transformers uses silu, whatever hidden_act says.
void read_step3p5(const FamilyConfig& in) {
  ModelConfig& config = in.config;
  require_members_of_step(in);
  require_silu(in, "by this class");
  read_sizes(in, {.default_norm_eps = 1e-5});
  config.norm = NormType::gemma_rms_norm;
  read_heads_of_step(in);
  config.sliding_window = in.reader.integer("sliding_window", 1, kMaxPositions);
  read_layer_types(in, num_mtp_layers(in));
  if (config.num_full_attention_heads != config.num_attention_heads) {
    config.full_heads = {.count = config.num_key_value_heads, .head_dim = config.head_dim};
  }
  require_heads_of_layers(in);
  read_rope_of_step(in);
  read_experts_of_step(in);
  read_tied_embeddings(in, false);
}

}  // namespace reprise::weights
