// Kimi Linear: layers of delta attention, in which keys forget element by element, between layers
// of latent attention without a rotation; the experts are those of DeepSeek-V3.
#include <fmt/format.h>

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

constexpr int64_t kMaxDeltaHeads = 4096;
constexpr int64_t kMaxDeltaHeadDim = 1024;
constexpr int64_t kMaxDeltaKernel = 16;  // published models have 4

// Published configs write these members, although the class of Transformers does not read them: it
// supports only these values.
void require_members_of_kimi(const FamilyConfig& in) {
  require_boolean(in, "mla_use_nope", true);
  require_boolean(in, "use_grouped_topk", true);
  if (in.reader.string("moe_router_activation_func").value_or("sigmoid") != "sigmoid") {
    in.reader.fail("moe_router_activation_func", "only 'sigmoid' is supported");
  }
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    if (in.reader.find(key) != nullptr) in.reader.fail(key, "no layer of this class rotates");
  }
  if (in.reader.integer("num_nextn_predict_layers", 0, kMaxPositions).value_or(0) != 0) {
    in.reader.fail("num_nextn_predict_layers", "only 0 is supported");
  }
}

// Reads `linear_attn_config` of published configs, or the separate members that Transformers
// writes.
void read_delta_attention(const FamilyConfig& in) {
  const auto older = in.reader.object("linear_attn_config");
  const auto read = [&](std::string_view name,
                        std::string_view older_name,
                        int64_t least,
                        int64_t most,
                        int64_t by_default) {
    const auto value = older ? older->integer(older_name, least, most) : std::nullopt;
    return value ? *value : in.reader.integer(name, least, most).value_or(by_default);
  };
  RecurrentConfig layers{.recurrence = Recurrence::gated_delta_net, .has_key_steps = true};
  layers.num_heads = read("linear_num_heads", "num_heads", 1, kMaxDeltaHeads, 32);
  layers.head_dim = read("linear_head_dim", "head_dim", 1, kMaxDeltaHeadDim, 128);
  layers.conv_kernel =
      read("linear_conv_kernel_dim", "short_conv_kernel_size", 2, kMaxDeltaKernel, 4);
  layers.state_size = layers.head_dim;
  layers.num_groups = layers.num_heads;
  in.config.recurrent = layers;
}

// Sets the layers of one kind. Older configs count layers from 1.
void set_listed_layers(const FamilyConfig& in,
                       const ConfigReader& older,
                       std::string_view key,
                       LayerType type) {
  std::vector<LayerType>& types = in.config.layer_types;
  for (const int64_t layer : older.integers(key, 1, in.config.num_hidden_layers, types.size())) {
    types[static_cast<size_t>(layer - 1)] = type;
  }
}

void read_layers_of_kimi(const FamilyConfig& in) {
  std::vector<LayerType>& types = in.config.layer_types;
  if (const Json* listed = find_layer_list(in, "layer_types"); listed != nullptr) {
    for (size_t layer = 0; layer < types.size(); ++layer) {
      const Json& type = listed->at(layer);
      if (type != "full_attention" && type != "linear_attention") {
        in.reader.fail("layer_types",
                       fmt::format("'{}' is not supported; supported: full_attention, "
                                   "linear_attention",
                                   visible(type.dump())));
      }
      types[layer] =
          type == "full_attention" ? LayerType::full_attention : LayerType::linear_attention;
    }
    return;
  }
  const auto older = in.reader.object("linear_attn_config");
  if (older && older->has("full_attn_layers") && older->has("kda_layers")) {
    types.assign(types.size(), LayerType::none);
    set_listed_layers(in, *older, "full_attn_layers", LayerType::full_attention);
    set_listed_layers(in, *older, "kda_layers", LayerType::linear_attention);
    for (const LayerType type : types) {
      if (type == LayerType::none) older->fail("kda_layers", "leaves out a layer");
    }
    return;
  }
  constexpr size_t kPeriod = 4;
  for (size_t layer = 0; layer < types.size(); ++layer) {
    const bool is_full = layer > 0 && layer % kPeriod == 0;
    types[layer] = is_full ? LayerType::full_attention : LayerType::linear_attention;
  }
}

}  // namespace

void read_kimi_linear(const FamilyConfig& in) {
  ModelConfig& config = in.config;
  require_members_of_kimi(in);
  require_silu(in, "by layers of delta attention");
  read_sizes(in,
             {.max_position_embeddings = "model_max_length",
              .default_norm_eps = 1e-5,
              .default_max_positions = int64_t{1} << 20});
  read_latent_attention(in, 0);
  config.rope.type = RopeType::none;
  config.attention_scale = 1 / std::sqrt(static_cast<double>(config.mla->qk_head_dim()));
  read_delta_attention(in);
  read_layers_of_kimi(in);
  read_experts_of_deepseek(in,
                           RouterScores::sigmoid_with_bias,
                           {.num_dense = 1, .num_shared = 1, .routed_scale = 2.446},
                           {.count = "num_experts",
                            .top_k = "num_experts_per_token",
                            .renormalises = "moe_renormalize",
                            .groups = "num_expert_group",
                            .num_shared = "num_shared_experts"});
  read_mlp_layer_types(in);
  read_tied_embeddings(in, false);
}

}  // namespace reprise::weights
