#include "reprise/weights/gguf/gguf_architectures.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>

#include "reprise/weights/gguf/gguf_deepseek.h"
#include "reprise/weights/gguf/gguf_experts.h"
#include "reprise/weights/gguf/gguf_recurrent.h"
#include "reprise/weights/gguf/gguf_windows.h"
#include "reprise/weights/tensor_spec.h"

namespace reprise::weights::gguf {
namespace {

using enum CopiedMember::Type;

// Reads the factors of Granite. As in llama.cpp, a factor that is absent or 0 is not applied;
// attention then has the usual scale.
void read_granite(const ArchitectureKeys& keys, const GgufConfigTraits& /*traits*/, Json& config) {
  const auto factor = [&](std::string_view name, double by_default) {
    const double value = keys.number(name).value_or(0);
    return value == 0 ? by_default : value;
  };
  const double usual_scale = 1 / std::sqrt(config["head_dim"].get<double>());
  config["attention_multiplier"] = factor("attention.scale", usual_scale);
  config["embedding_multiplier"] = factor("embedding_scale", 1);
  config["residual_multiplier"] = factor("residual_scale", 1);
  config["logits_scaling"] = factor("logit_scale", 1);
}

// For files of MiniCPM without these factors, llama.cpp has factors of its own.
void read_minicpm(const ArchitectureKeys& keys, const GgufConfigTraits& traits, Json& config) {
  for (const std::string_view name : {"embedding_scale", "residual_scale", "logit_scale"}) {
    if (!keys.number(name)) keys.fail(name, "is required; convert the model again to get it");
  }
  read_granite(keys, traits, config);
}

// Attention scores are multiplied by 1 / sqrt(query_pre_attn_scalar), a number that files do not
// contain. In published models it is the size of a head, except in the largest one. As in
// llama.cpp, the largest model is recognised by its number of layers.
void read_gemma_scale(int64_t layers_of_largest, Json& config) {
  const auto hidden_size = config["hidden_size"].get<int64_t>();
  const auto num_heads = config["num_attention_heads"].get<int64_t>();
  config["query_pre_attn_scalar"] = config["num_hidden_layers"] == layers_of_largest
                                        ? hidden_size / num_heads
                                        : config["head_dim"].get<int64_t>();
}
void read_gemma2(const ArchitectureKeys& /*keys*/,
                 const GgufConfigTraits& /*traits*/,
                 Json& config) {
  read_gemma_scale(46, config);
}
void read_gemma3(const ArchitectureKeys& /*keys*/,
                 const GgufConfigTraits& /*traits*/,
                 Json& config) {
  read_gemma_scale(62, config);
}

// In the files q, k and v are stacked. The newer class of Falcon stores them like that for any
// number of key/value heads.
void read_falcon(const ArchitectureKeys& /*keys*/, const GgufConfigTraits& traits, Json& config) {
  config["new_decoder_architecture"] = true;
  config["num_ln_in_parallel_attn"] = traits.has("attn_norm_2.weight") ? 2 : 1;
}

// As in llama.cpp: an MLP without a norm of its own has the same input as attention.
void read_stablelm(const ArchitectureKeys& /*keys*/, const GgufConfigTraits& traits, Json& config) {
  config["use_parallel_residual"] = !traits.has("ffn_norm.weight");
}

void read_command_r(const ArchitectureKeys& /*keys*/,
                    const GgufConfigTraits& traits,
                    Json& config) {
  config["use_qk_norm"] = traits.has("attn_q_norm.weight");
}

// Without attention.clamp_kqv, or if it is 0, nothing is clipped.
void read_olmoe(const ArchitectureKeys& keys, const GgufConfigTraits& /*traits*/, Json& config) {
  const double limit = keys.number("attention.clamp_kqv").value_or(0);
  if (limit != 0) config["clip_qkv"] = limit;
}

void read_granite_hybrid(const ArchitectureKeys& keys,
                         const GgufConfigTraits& traits,
                         Json& config) {
  read_granite(keys, traits, config);
  read_granite_hybrid_layers(keys, traits, config);
}

// Solar Open files have the name of GLM-4.5, and need only the class of GLM-4.5.
void read_glm4_moe(const ArchitectureKeys& keys, const GgufConfigTraits& traits, Json& config) {
  require_sigmoid_router(keys);
  read_experts_of_deepseek(keys, config);
  config["use_qk_norm"] = traits.has("attn_q_norm.weight");
}

void read_dots1(const ArchitectureKeys& keys, const GgufConfigTraits& /*traits*/, Json& config) {
  require_sigmoid_router(keys);
  read_experts_of_deepseek(keys, config);
  config["sliding_window"] = nullptr;
}

void read_minimax_m2(const ArchitectureKeys& keys,
                     const GgufConfigTraits& /*traits*/,
                     Json& /*config*/) {
  require_sigmoid_router(keys);
}

void read_ernie4_5_moe(const ArchitectureKeys& keys,
                       const GgufConfigTraits& /*traits*/,
                       Json& config) {
  config["moe_k"] = config["num_experts_per_tok"];
  config["moe_layer_interval"] = keys.required("interleave_moe_layer_step");
  config["moe_layer_start_index"] = keys.integer("leading_dense_block_count").value_or(0);
  const auto size = config["moe_intermediate_size"].get<int64_t>();
  constexpr std::string_view kShared = "expert_shared_feed_forward_length";
  const int64_t shared = keys.integer(kShared).value_or(0);
  if (shared % size != 0) {
    keys.fail(kShared, fmt::format("{} is no multiple of the size of an expert, {}", shared, size));
  }
  config["moe_num_shared_experts"] = shared / size;
}

void read_hunyuan_moe(const ArchitectureKeys& keys,
                      const GgufConfigTraits& /*traits*/,
                      Json& config) {
  config["moe_topk"] = config["num_experts_per_tok"];
  const auto size = config["intermediate_size"].get<int64_t>();
  constexpr std::string_view kShared = "expert_shared_feed_forward_length";
  if (const int64_t shared = keys.integer(kShared).value_or(size); shared != size) {
    keys.fail(kShared,
              fmt::format("is {}, only that of an expert, {}, is supported", shared, size));
  }
}

// Without a key for the window, no layer has a window, except in the largest published model.
void read_exaone4(const ArchitectureKeys& keys, const GgufConfigTraits& /*traits*/, Json& config) {
  constexpr int64_t kLayersOfLargest = 64;
  if (config.contains("sliding_window")) return;
  if (keys.num_layers() == kLayersOfLargest) {
    config["sliding_window"] = 4096;
  } else {
    config["sliding_window"] = nullptr;
  }
}

// In YaRN, Transformers blends between fractions of dimensions, as here; llama.cpp rounds them.
void read_gpt_oss(const ArchitectureKeys& /*keys*/,
                  const GgufConfigTraits& /*traits*/,
                  Json& config) {
  if (config.contains("rope_scaling")) config["rope_scaling"]["truncate"] = false;
}

// llama.cpp has these in its code, because they are the same in all published models and files do
// not contain them: the chunks, the layers without rotation and the temperature of attention. The
// model with 128 experts has no norms of q and k.
void read_llama4(const ArchitectureKeys& keys, const GgufConfigTraits& /*traits*/, Json& config) {
  constexpr int64_t kChunk = 8192;
  constexpr int64_t kPeriod = 4;  // layers of which one sees everything
  constexpr int64_t kExpertsWithoutNorms = 128;
  const auto require = [&](std::string_view key, int64_t only) {
    if (const int64_t value = keys.integer(key).value_or(only); value != only) {
      keys.fail(key, fmt::format("is {}, only {} is supported", value, only));
    }
  };
  require("attention.sliding_window", kChunk);
  require("attention.sliding_window_pattern", kPeriod);
  require("expert_shared_feed_forward_length", config["intermediate_size"].get<int64_t>());
  config["attention_chunk_size"] = kChunk;
  config["no_rope_layer_interval"] = kPeriod;
  config["intermediate_size_mlp"] = keys.required("feed_forward_length");
  config["interleave_moe_layer_step"] = keys.required("interleave_moe_layer_step");
  config["use_qk_norm"] = keys.required("expert_count") != kExpertsWithoutNorms;
}

// Files contain neither the pooler, which only classifiers read, nor the function of the MLP.
void read_bert(const ArchitectureKeys& keys, const GgufConfigTraits& traits, Json& config) {
  if (traits.num_token_types == 0) {
    keys.fail("block_count", "the model has no token_types.weight; DistilBERT is not supported");
  }
  config["type_vocab_size"] = traits.num_token_types;
  config["hidden_act"] = "gelu";
}

// Files of Mistral 3 have this name too, but only those of Ministral 3 have a temperature.
// llama.cpp computes the attention factor of YaRN from the multiplier, and Transformers from
// mscale_all_dim.
void read_mistral3(const ArchitectureKeys& keys, const GgufConfigTraits& /*traits*/, Json& config) {
  config["sliding_window"] = nullptr;
  const double beta = keys.number("attention.temperature_scale").value_or(0);
  const bool has_yarn =
      config.contains("rope_scaling") && config["rope_scaling"]["rope_type"] == "yarn";
  if (!has_yarn) {
    if (beta != 0) keys.fail("attention.temperature_scale", "is supported with YaRN alone");
    config["architectures"] = Json::array({"MistralForCausalLM"});
    return;
  }
  Json& scaling = config["rope_scaling"];
  scaling["llama_4_scaling_beta"] = beta;
  const double magnitude = keys.number("rope.scaling.yarn_log_multiplier").value_or(0);
  if (magnitude == 0) return;
  scaling["mscale"] = 1.0;
  scaling["mscale_all_dim"] = magnitude;
  scaling.erase("attention_factor");
}

// OLMo 3 has windows.
void read_olmo2(const ArchitectureKeys& /*keys*/,
                const GgufConfigTraits& /*traits*/,
                Json& config) {
  if (config.contains("sliding_window")) {
    config["architectures"] = Json::array({"Olmo3ForCausalLM"});
  }
}

constexpr auto kWindow =
    std::to_array<CopiedMember>({{"attention.sliding_window", "sliding_window"}});
constexpr auto kGemmaMembers = std::to_array<CopiedMember>({
    {"attention.sliding_window", "sliding_window"},
    {"attn_logit_softcapping", "attn_logit_softcapping", number},
    {"final_logit_softcapping", "final_logit_softcapping", number},
    {"rope.freq_base_swa", "rope_local_base_freq", number},
});

constexpr auto kCohereMembers = std::to_array<CopiedMember>({
    {"attention.sliding_window", "sliding_window"},
    {"logit_scale", "logit_scale", number},
});
constexpr auto kMambaMembers = std::to_array<CopiedMember>({
    {"ssm.conv_kernel", "conv_kernel"},
    {"ssm.inner_size", "intermediate_size"},
    {"ssm.state_size", "state_size"},
    {"ssm.time_step_rank", "time_step_rank"},
});
constexpr auto kGptNeoxMembers = std::to_array<CopiedMember>({
    {"use_parallel_residual", "use_parallel_residual", boolean},
});

// Those Mistral models that this engine runs have the name "llama". MiniCPM computes the same as
// Granite, and its files have the factors under Granite's keys. Source: gguf-py/gguf/constants.py
// of https://github.com/ggml-org/llama.cpp
constexpr auto kArchitectures = std::to_array<GgufArchitecture>({
    {.name = "bert",
     .model_class = "BertModel",
     .has_layer_norm = true,
     .is_encoder = true,
     .read = read_bert},
    {.name = "chatglm", .model_class = "GlmForCausalLM", .rotates_part = true},
    {.name = "cohere2",
     .model_class = "Cohere2ForCausalLM",
     .has_layer_norm = true,
     .reads_logit_scale = true,
     .members = kCohereMembers},
    {.name = "command-r",
     .model_class = "CohereForCausalLM",
     .has_layer_norm = true,
     .reads_logit_scale = true,
     .members = kCohereMembers,
     .read = read_command_r},
    {.name = "deepseek2",
     .model_class = "DeepseekV2ForCausalLM",
     .has_experts = true,
     .has_latent_attention = true,
     .read = read_deepseek2},
    {.name = "deepseek32",
     .model_class = "DeepseekV32ForCausalLM",
     .has_experts = true,
     .has_latent_attention = true,
     .read = read_deepseek32},
    {.name = "dots1", .model_class = "Dots1ForCausalLM", .has_experts = true, .read = read_dots1},
    {.name = "ernie4_5", .model_class = "Ernie4_5ForCausalLM"},
    {.name = "ernie4_5-moe",
     .model_class = "Ernie4_5_MoeForCausalLM",
     .has_experts = true,
     .read = read_ernie4_5_moe},
    {.name = "exaone4",
     .model_class = "Exaone4ForCausalLM",
     .members = kWindow,
     .read = read_exaone4},
    {.name = "falcon",
     .model_class = "FalconForCausalLM",
     .has_layer_norm = true,
     .read = read_falcon},
    {.name = "falcon-h1", .model_class = "FalconH1ForCausalLM", .read = read_falcon_h1},
    {.name = "gemma", .model_class = "GemmaForCausalLM"},
    {.name = "gemma2",
     .model_class = "Gemma2ForCausalLM",
     .members = kGemmaMembers,
     .read = read_gemma2},
    {.name = "gemma3",
     .model_class = "Gemma3ForCausalLM",
     .members = kGemmaMembers,
     .read = read_gemma3},
    {.name = "glm-dsa",
     .model_class = "GlmMoeDsaForCausalLM",
     .has_experts = true,
     .has_latent_attention = true,
     .read = read_glm_dsa},
    {.name = "glm4", .model_class = "Glm4ForCausalLM", .rotates_part = true},
    {.name = "glm4moe",
     .model_class = "Glm4MoeForCausalLM",
     .has_experts = true,
     .rotates_part = true,
     .read = read_glm4_moe},
    {.name = "gpt-oss",
     .model_class = "GptOssForCausalLM",
     .has_experts = true,
     .members = kWindow,
     .read = read_gpt_oss},
    {.name = "gpt2", .model_class = "GPT2LMHeadModel", .has_layer_norm = true},
    {.name = "gptneox",
     .model_class = "GPTNeoXForCausalLM",
     .has_layer_norm = true,
     .rotates_part = true,
     .members = kGptNeoxMembers},
    {.name = "granite",
     .model_class = "GraniteForCausalLM",
     .reads_logit_scale = true,
     .read = read_granite},
    {.name = "granitehybrid",
     .model_class = "GraniteMoeHybridForCausalLM",
     .has_recurrent_layers = true,
     .reads_logit_scale = true,
     .read = read_granite_hybrid},
    {.name = "granitehybrid",
     .model_class = "GraniteMoeHybridForCausalLM",
     .has_experts = true,
     .has_recurrent_layers = true,
     .reads_logit_scale = true,
     .read = read_granite_hybrid},
    {.name = "granitemoe",
     .model_class = "GraniteMoeForCausalLM",
     .has_experts = true,
     .reads_logit_scale = true,
     .read = read_granite},
    // The factor alpha is already part of the base of the frequencies.
    {.name = "hunyuan-dense", .model_class = "HunYuanDenseV1ForCausalLM"},
    {.name = "hunyuan-moe",
     .model_class = "HunYuanMoEV1ForCausalLM",
     .has_experts = true,
     .read = read_hunyuan_moe},
    {.name = "kimi-linear",
     .model_class = "KimiLinearForCausalLM",
     .has_experts = true,
     .has_recurrent_layers = true,
     .has_latent_attention = true,
     .read = read_kimi_linear},
    {.name = "lfm2",
     .model_class = "Lfm2ForCausalLM",
     .has_recurrent_layers = true,
     .read = read_lfm2},
    {.name = "lfm2moe",
     .model_class = "Lfm2MoeForCausalLM",
     .has_experts = true,
     .has_recurrent_layers = true,
     .read = read_lfm2_moe},
    {.name = "llama", .model_class = "LlamaForCausalLM"},
    {.name = "llama", .model_class = "MixtralForCausalLM", .has_experts = true},
    {.name = "llama4",
     .model_class = "Llama4ForCausalLM",
     .has_experts = true,
     .read = read_llama4},
    {.name = "mamba",
     .model_class = "MambaForCausalLM",
     .has_attention = false,
     .members = kMambaMembers,
     .read = read_mamba},
    {.name = "mamba2",
     .model_class = "Mamba2ForCausalLM",
     .has_attention = false,
     .read = read_mamba2},
    {.name = "mimo2",
     .model_class = "MiMoV2FlashForCausalLM",
     .has_experts = true,
     .has_heads_by_window = true,
     .read = read_mimo2},
    {.name = "minicpm",
     .model_class = "GraniteForCausalLM",
     .reads_logit_scale = true,
     .read = read_minicpm},
    {.name = "minimax-m2",
     .model_class = "MiniMaxM2ForCausalLM",
     .has_experts = true,
     .rotates_part = true,
     .read = read_minimax_m2},
    {.name = "mistral3", .model_class = "Ministral3ForCausalLM", .read = read_mistral3},
    {.name = "mistral4",
     .model_class = "Mistral4ForCausalLM",
     .has_experts = true,
     .has_latent_attention = true,
     .read = read_mistral4},
    {.name = "olmo2", .model_class = "Olmo2ForCausalLM", .members = kWindow, .read = read_olmo2},
    {.name = "olmoe", .model_class = "OlmoeForCausalLM", .has_experts = true, .read = read_olmoe},
    // As in Transformers, the window is used; llama.cpp ignores it.
    {.name = "phi3",
     .model_class = "Phi3ForCausalLM",
     .rotates_part = true,
     .reads_longrope = true,
     .members = kWindow},
    {.name = "qwen2", .model_class = "Qwen2ForCausalLM"},
    {.name = "qwen2moe", .model_class = "Qwen2MoeForCausalLM", .has_experts = true},
    {.name = "qwen3", .model_class = "Qwen3ForCausalLM"},
    {.name = "qwen35",
     .model_class = "Qwen3_5ForCausalLM",
     .rotates_part = true,
     .read = read_qwen35},
    {.name = "qwen35moe",
     .model_class = "Qwen3_5MoeForCausalLM",
     .has_experts = true,
     .rotates_part = true,
     .read = read_qwen35},
    {.name = "qwen3moe", .model_class = "Qwen3MoeForCausalLM", .has_experts = true},
    {.name = "qwen3next",
     .model_class = "Qwen3NextForCausalLM",
     .has_experts = true,
     .rotates_part = true,
     .read = read_qwen3_next},
    {.name = "seed_oss", .model_class = "SeedOssForCausalLM"},
    {.name = "smollm3", .model_class = "SmolLM3ForCausalLM"},
    {.name = "stablelm",
     .model_class = "StableLmForCausalLM",
     .has_layer_norm = true,
     .rotates_part = true,
     .read = read_stablelm},
    {.name = "starcoder", .model_class = "GPTBigCodeForCausalLM", .has_layer_norm = true},
    {.name = "starcoder2", .model_class = "Starcoder2ForCausalLM", .has_layer_norm = true},
    {.name = "step35",
     .model_class = "Step3p5ForCausalLM",
     .has_experts = true,
     .has_heads_by_window = true,
     .read = read_step35},
});

}  // namespace

const GgufArchitecture& find_architecture(const ArchitectureKeys& keys, const Metadata& metadata) {
  const bool has_experts = keys.integer("expert_count").value_or(0) != 0;
  const GgufArchitecture* found = nullptr;
  std::string supported;
  for (const GgufArchitecture& row : kArchitectures) {
    if (row.name == keys.architecture() && (found == nullptr || row.has_experts == has_experts)) {
      found = &row;
    }
    if (supported.ends_with(row.name)) continue;  // the row before
    supported += fmt::format("{}{}", supported.empty() ? "" : ", ", row.name);
  }
  if (found == nullptr) {
    metadata.fail("general.architecture",
                  fmt::format("'{}' is not supported in a GGUF file; supported: {}",
                              visible(keys.architecture()),
                              supported));
  }
  if (has_experts && !found->has_experts) {
    keys.fail("expert_count", "this architecture is supported without experts only");
  }
  return *found;
}

}  // namespace reprise::weights::gguf
