#include "reprise/weights/gguf/gguf_recurrent.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "reprise/weights/gguf/gguf_experts.h"

namespace reprise::weights::gguf {
namespace {

// The number of values of one head of a recurrent layer. Where files of the first Mamba have the
// rank of the time step, files of Mamba-2 have the number of heads.
int64_t recurrent_head_size(const ArchitectureKeys& keys) {
  const int64_t values = keys.required("ssm.inner_size");
  const int64_t heads = keys.required("ssm.time_step_rank");
  if (values % heads != 0) {
    keys.fail("ssm.time_step_rank", fmt::format("{} does not divide inner_size {}", heads, values));
  }
  return values / heads;
}

// Reads the sizes of a Mamba-2 layer under the names that hybrid models use.
void read_mamba2_layers(const ArchitectureKeys& keys,
                        const GgufConfigTraits& traits,
                        Json& config) {
  const int64_t values = keys.required("ssm.inner_size");
  config["mamba_n_heads"] = keys.required("ssm.time_step_rank");
  config["mamba_d_head"] = recurrent_head_size(keys);
  config["mamba_d_ssm"] = values;
  config["mamba_expand"] = std::max<int64_t>(values / config["hidden_size"].get<int64_t>(), 1);
  config["mamba_d_state"] = keys.required("ssm.state_size");
  config["mamba_d_conv"] = keys.required("ssm.conv_kernel");
  config["mamba_n_groups"] = keys.integer("ssm.group_count").value_or(1);
  config["mamba_conv_bias"] = traits.has("ssm_conv1d.bias");
  config["mamba_proj_bias"] = config["projectors_bias"] = traits.has("ssm_in.bias");
}

}  // namespace

void write_layer_types(const ArchitectureKeys& keys, Json& config) {
  config["layer_types"] = Json::array();
  for (const int64_t heads :
       keys.integers("attention.head_count_kv", keys.required("block_count"))) {
    config["layer_types"].push_back(heads == 0 ? "linear_attention" : "full_attention");
  }
}

void read_mamba(const ArchitectureKeys& keys, const GgufConfigTraits& traits, Json& config) {
  if (keys.boolean("ssm.dt_b_c_rms").value_or(false)) {
    keys.fail("ssm.dt_b_c_rms", "norms of FalconMamba are not supported");
  }
  config["use_conv_bias"] = traits.has("ssm_conv1d.bias");
  config["use_bias"] = traits.has("ssm_in.bias");
}

void read_mamba2(const ArchitectureKeys& keys, const GgufConfigTraits& traits, Json& config) {
  read_mamba2_layers(keys, traits, config);
  for (const auto& [hybrid, name] :
       std::to_array<std::pair<const char*, const char*>>({{"mamba_n_heads", "num_heads"},
                                                           {"mamba_d_head", "head_dim"},
                                                           {"mamba_expand", "expand"},
                                                           {"mamba_d_state", "state_size"},
                                                           {"mamba_d_conv", "conv_kernel"},
                                                           {"mamba_n_groups", "n_groups"},
                                                           {"mamba_conv_bias", "use_conv_bias"},
                                                           {"mamba_proj_bias", "use_bias"}})) {
    config[name] = config[hybrid];
  }
}

// The factors of Falcon-H1 are already part of the file's weights.
void read_falcon_h1(const ArchitectureKeys& keys, const GgufConfigTraits& traits, Json& config) {
  read_mamba2_layers(keys, traits, config);
  config["mamba_rms_norm"] = traits.has("ssm_norm.weight");
  config["mamba_norm_before_gate"] = false;  // llama.cpp has no other order
}

void read_granite_hybrid_layers(const ArchitectureKeys& keys,
                                const GgufConfigTraits& traits,
                                Json& config) {
  read_mamba2_layers(keys, traits, config);
  write_layer_types(keys, config);
  const bool rotates = keys.boolean("rope.scaling.finetuned").value_or(false);
  config["position_embedding_type"] = rotates ? "rope" : "nope";
  if (keys.integer("expert_count").value_or(0) != 0) return;
  config["num_local_experts"] = 0;
  config["shared_intermediate_size"] = config["intermediate_size"];
}

// Files do not list layers with dense MLPs: all layers have experts.
void read_qwen3_next(const ArchitectureKeys& keys,
                     const GgufConfigTraits& /*traits*/,
                     Json& config) {
  config["linear_num_value_heads"] = keys.required("ssm.time_step_rank");
  config["linear_value_head_dim"] = recurrent_head_size(keys);
  config["linear_num_key_heads"] = keys.required("ssm.group_count");
  config["linear_key_head_dim"] = keys.required("ssm.state_size");
  config["linear_conv_kernel_dim"] = keys.required("ssm.conv_kernel");
  const int64_t interval = keys.integer("full_attention_interval").value_or(0);
  config["full_attention_interval"] = interval == 0 ? 4 : interval;
}

// Qwen3-Next with a projection for each part. A list may say which layers are recurrent.
void read_qwen35(const ArchitectureKeys& keys, const GgufConfigTraits& traits, Json& config) {
  read_qwen3_next(keys, traits, config);
  constexpr std::string_view kKey = "attention.recurrent_layers";
  if (!keys.has(kKey)) return;
  std::vector<int64_t> are_recurrent = keys.integers(kKey, keys.required("block_count"));
  are_recurrent.resize(static_cast<size_t>(keys.num_layers()));
  config["layer_types"] = Json::array();
  for (const int64_t is_recurrent : are_recurrent) {
    config["layer_types"].push_back(is_recurrent != 0 ? "linear_attention" : "full_attention");
  }
}

void read_lfm2(const ArchitectureKeys& keys, const GgufConfigTraits& traits, Json& config) {
  write_layer_types(keys, config);
  config["conv_L_cache"] = keys.required("shortconv.l_cache");
  config["conv_bias"] = traits.has("shortconv.conv.bias");
  config["block_auto_adjust_ff_dim"] = false;  // the file already has the resulting size
}

void read_lfm2_moe(const ArchitectureKeys& keys, const GgufConfigTraits& traits, Json& config) {
  read_lfm2(keys, traits, config);
  require_sigmoid_router(keys);
  config["norm_topk_prob"] = true;
  config["num_dense_layers"] = keys.integer("leading_dense_block_count").value_or(0);
  config["routed_scaling_factor"] = expert_scale(keys);
}

}  // namespace reprise::weights::gguf
