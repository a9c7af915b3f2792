#include "reprise/weights/gguf/gguf_deepseek.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "reprise/weights/gguf/gguf_experts.h"
#include "reprise/weights/gguf/gguf_recurrent.h"

namespace reprise::weights::gguf {
namespace {

constexpr int64_t kSoftmax = 1;
constexpr int64_t kSigmoid = 2;

// In newer files, the sizes of the heads that are made from the latent have separate keys.
void read_latent_attention(const ArchitectureKeys& keys, Json& config) {
  const auto size = [&](std::string_view name) {
    const std::string of_heads = std::string(name) + "_mla";
    return keys.has(of_heads) ? keys.required(of_heads) : keys.required(name);
  };
  const int64_t rotated = keys.required("rope.dimension_count");
  const int64_t key = size("attention.key_length");
  if (key <= rotated) {
    keys.fail("rope.dimension_count",
              fmt::format("is {}, not less than the {} elements of a key", rotated, key));
  }
  config["num_attention_heads"] = keys.required("attention.head_count");
  config["qk_rope_head_dim"] = rotated;
  config["qk_nope_head_dim"] = key - rotated;
  config["v_head_dim"] = size("attention.value_length");
  config["kv_lora_rank"] = keys.required("attention.kv_lora_rank");
  const int64_t q_rank = keys.integer("attention.q_lora_rank").value_or(0);
  config["q_lora_rank"] = q_rank == 0 ? Json(nullptr) : Json(q_rank);
}

bool has_yarn(const Json& config) {
  return config.contains("rope_scaling") && config["rope_scaling"]["rope_type"] == "yarn";
}

// Published models have the same value for mscale and mscale_all_dim; files have a tenth of it.
void read_magnitude(const ArchitectureKeys& keys, Json& config) {
  if (!has_yarn(config)) return;
  Json& scaling = config["rope_scaling"];
  const double magnitude = 10 * keys.number("rope.scaling.yarn_log_multiplier").value_or(0);
  if (magnitude == 0) {
    scaling["attention_factor"] = 1.0;
  } else {
    scaling["mscale"] = scaling["mscale_all_dim"] = magnitude;
  }
}

double temperature(const ArchitectureKeys& keys) {
  return keys.number("attention.temperature_scale").value_or(0);
}

void refuse_temperature(const ArchitectureKeys& keys) {
  if (temperature(keys) == 0) return;
  keys.fail("attention.temperature_scale",
            "is supported with experts chosen by softmax scores alone, as Mistral's are");
}

// In every layer, tokens choose the positions that they see.
void read_position_index(const ArchitectureKeys& keys, Json& config) {
  config["index_n_heads"] = keys.required("attention.indexer.head_count");
  config["index_head_dim"] = keys.required("attention.indexer.key_length");
  config["index_topk"] = keys.required("attention.indexer.top_k");
}

void read_sparse_deepseek(const ArchitectureKeys& keys, Json& config) {
  read_latent_attention(keys, config);
  require_sigmoid_router(keys);
  refuse_temperature(keys);
  read_experts_of_deepseek(keys, config);
  read_position_index(keys, config);
  read_magnitude(keys, config);
}

}  // namespace

void read_experts_of_deepseek(const ArchitectureKeys& keys, Json& config) {
  config["norm_topk_prob"] = keys.boolean("expert_weights_norm").value_or(false);
  config["n_shared_experts"] = keys.integer("expert_shared_count").value_or(0);
  config["first_k_dense_replace"] = keys.integer("leading_dense_block_count").value_or(0);
  config["routed_scaling_factor"] = expert_scale(keys);
  const int64_t groups = std::max<int64_t>(keys.integer("expert_group_count").value_or(1), 1);
  config["n_group"] = groups;
  config["topk_group"] = keys.integer("expert_group_used_count").value_or(groups);
}

// Files of V2 and V3 have the same name. In V3, a sigmoid turns the router's logits into scores.
// Files of Mistral Large 3 also have this name, with softmax scores whose weights sum to one.
void read_deepseek2(const ArchitectureKeys& keys, const GgufConfigTraits& traits, Json& config) {
  const bool is_v3 = keys.integer("expert_gating_func").value_or(kSoftmax) == kSigmoid;
  if (!is_v3 && keys.boolean("expert_weights_norm").value_or(false)) {
    config["architectures"] = Json::array({"Mistral4ForCausalLM"});
    return read_mistral4(keys, traits, config);
  }
  read_latent_attention(keys, config);
  refuse_temperature(keys);
  read_experts_of_deepseek(keys, config);
  if (is_v3) {
    config["architectures"] = Json::array({"DeepseekV3ForCausalLM"});
  } else {
    config["topk_method"] = config["n_group"] == 1 ? "greedy" : "group_limited_greedy";
  }
  read_magnitude(keys, config);
}

void read_deepseek32(const ArchitectureKeys& keys,
                     const GgufConfigTraits& /*traits*/,
                     Json& config) {
  read_sparse_deepseek(keys, config);
}

// In GLM-5.2, some layers reuse the positions that an earlier layer chose. Files that do not list
// such layers are recognised by their context length, as in llama.cpp.
void read_glm_dsa(const ArchitectureKeys& keys, const GgufConfigTraits& /*traits*/, Json& config) {
  constexpr std::string_view kKey = "attention.indexer.types";
  constexpr std::string_view kMessage =
      "layers that see the positions which an earlier one chose, as in GLM-5.2, are not supported";
  constexpr int64_t kContextOfShared = 1 << 20;
  if (!keys.has(kKey) && keys.required("context_length") >= kContextOfShared) {
    keys.fail(kKey, kMessage);
  }
  if (keys.has(kKey)) {
    for (const int64_t chooses : keys.integers(kKey, keys.num_layers())) {
      if (chooses == 0) keys.fail(kKey, kMessage);
    }
  }
  read_sparse_deepseek(keys, config);
}

// The files do not contain the number of heads of delta attention: as in llama.cpp, it is that of
// the other layers. The weights of a token's experts always sum to one.
void read_kimi_linear(const ArchitectureKeys& keys,
                      const GgufConfigTraits& /*traits*/,
                      Json& config) {
  read_latent_attention(keys, config);
  require_sigmoid_router(keys);
  read_experts_of_deepseek(keys, config);
  write_layer_types(keys, config);
  config["linear_num_heads"] = config["num_attention_heads"];
  config["linear_head_dim"] = keys.required("kda.head_dim");
  config["linear_conv_kernel_dim"] = keys.required("ssm.conv_kernel");
  config["moe_renormalize"] = true;
  config["num_expert_group"] = config["n_group"];
  config["num_shared_experts"] = config["n_shared_experts"];
}

// DeepSeek-V3 with softmax scores, and with queries that grow with the position.
void read_mistral4(const ArchitectureKeys& keys, const GgufConfigTraits& /*traits*/, Json& config) {
  read_latent_attention(keys, config);
  constexpr std::string_view kFunction = "expert_gating_func";
  if (const int64_t function = keys.integer(kFunction).value_or(kSoftmax); function != kSoftmax) {
    keys.fail(kFunction, fmt::format("is {}, only {} (softmax) is supported", function, kSoftmax));
  }
  read_experts_of_deepseek(keys, config);
  read_magnitude(keys, config);
  const double beta = temperature(keys);
  if (beta == 0) {
    if (has_yarn(config)) config["rope_scaling"]["llama_4_scaling_beta"] = 0.0;
    return;
  }
  constexpr std::string_view kLength = "attention.temperature_length";
  const auto original = keys.integer("rope.scaling.original_context_length");
  if (!has_yarn(config) || !original || keys.integer(kLength) != original) {
    keys.fail(kLength,
              "must be rope.scaling.original_context_length of YaRN: only such a temperature is "
              "supported");
  }
  config["rope_scaling"]["llama_4_scaling_beta"] = beta;
}

}  // namespace reprise::weights::gguf
