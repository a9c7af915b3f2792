// Configs of every family: as published, and malformed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "reprise/base/json.h"
#include "reprise/weights/config/decoder_tensors.h"
#include "reprise/weights/config/expected_tensors.h"
#include "reprise/weights/config/model_config.h"
#include "tests/support/weights/complete_config.h"
#include "tests/support/weights/weights_fixture.h"

namespace reprise::weights {
namespace {

using ::testing::ElementsAre;

LoadedModelConfig load_text(const std::string& text) {
  return parse_model_config(text, "config.json");
}

Json complete(std::string_view architecture) { return complete_config(architecture); }
Json complete(std::string_view architecture, std::string_view key, Json value) {
  Json config = complete(architecture);
  config[std::string(key)] = std::move(value);
  return config;
}

// "E_CONFIG field" or "accepted".
std::string family_refusal(const Json& json) {
  try {
    (void)parse_model_config(json.dump(), "config.json");
  } catch (const FileError& error) {
    return error.code() + " " + error.field();
  }
  return "accepted";
}

TEST(Families, every_architecture_has_a_reader_and_unique_names_of_tensors) {
  for (const Architecture architecture : kAllArchitectures) {
    const std::string name(architecture_name(architecture));
    SCOPED_TRACE(name);
    const LoadedModelConfig loaded = load_text(complete(name).dump());
    EXPECT_EQ(loaded.config.architecture, architecture);
    std::set<std::string> names;
    for (const ExpectedTensor& tensor : expected_tensors(loaded.config)) {
      EXPECT_TRUE(names.insert(tensor.name).second) << tensor.name;
    }
    EXPECT_GT(names.size(), 20U);
  }
}

// One malformed member for each family; the message must name it.
struct Malformed {
  const char* architecture;
  const char* key;
  Json value;
  const char* field;  // that the refusal names
};

TEST(Families, malformed_members_are_refused_by_name) {
  const Json window_layers = {
      "sliding_attention", "full_attention", "full_attention", "full_attention"};
  const std::vector<Malformed> cases = {
      {"MixtralForCausalLM", "num_local_experts", 0, "num_local_experts"},
      {"MixtralForCausalLM", "num_local_experts", 1, "num_experts_per_tok"},
      {"MixtralForCausalLM", "num_local_experts", 1 << 20, "num_local_experts"},
      {"MixtralForCausalLM", "num_experts_per_tok", 0, "num_experts_per_tok"},
      {"Qwen2MoeForCausalLM", "num_experts", 0, "num_experts"},
      {"Qwen2MoeForCausalLM", "num_experts_per_tok", 5, "num_experts_per_tok"},
      {"Qwen2MoeForCausalLM", "moe_intermediate_size", 0, "moe_intermediate_size"},
      {"Qwen2MoeForCausalLM",
       "shared_expert_intermediate_size",
       0,
       "shared_expert_intermediate_size"},
      {"Qwen2MoeForCausalLM", "decoder_sparse_step", 0, "decoder_sparse_step"},
      {"Qwen3MoeForCausalLM", "mlp_only_layers", {4}, "mlp_only_layers"},
      {"Qwen3MoeForCausalLM", "num_experts", nullptr, "num_experts"},
      {"Qwen3_5ForCausalLM", "linear_num_key_heads", 3, "linear_num_key_heads"},
      {"Qwen3_5ForCausalLM", "linear_value_head_dim", nullptr, "linear_value_head_dim"},
      {"Lfm2ForCausalLM", "conv_L_cache", 1, "conv_L_cache"},
      {"Lfm2ForCausalLM", "conv_L_cache", nullptr, "conv_L_cache"},
      {"Lfm2ForCausalLM", "full_attn_idxs", {4}, "full_attn_idxs"},
      {"Lfm2ForCausalLM", "layer_types", {"conv"}, "layer_types"},
      {"Lfm2ForCausalLM", "block_multiple_of", 0, "block_multiple_of"},
      {"Lfm2ForCausalLM", "block_ffn_dim_multiplier", -1, "block_ffn_dim_multiplier"},
      {"MambaForCausalLM", "state_size", 0, "state_size"},
      {"MambaForCausalLM", "state_size", nullptr, "state_size"},
      {"MambaForCausalLM", "conv_kernel", 1, "conv_kernel"},
      {"MambaForCausalLM", "time_step_rank", 0, "time_step_rank"},
      {"MambaForCausalLM", "intermediate_size", int64_t{1} << 40, "intermediate_size"},
      {"MambaForCausalLM", "hidden_act", "gelu", "hidden_act"},
      {"Mamba2ForCausalLM", "state_size", 0, "state_size"},
      {"Mamba2ForCausalLM", "state_size", 1 << 20, "state_size"},
      {"Mamba2ForCausalLM", "num_heads", 0, "num_heads"},
      {"Mamba2ForCausalLM", "num_heads", nullptr, "num_heads"},
      {"Mamba2ForCausalLM", "num_heads", 7, "n_groups"},
      {"Mamba2ForCausalLM", "num_heads", 6, "num_heads"},
      {"Mamba2ForCausalLM", "head_dim", 24, "head_dim"},
      {"Mamba2ForCausalLM", "n_groups", 3, "n_groups"},
      {"Mamba2ForCausalLM", "expand", 0, "expand"},
      {"Mamba2ForCausalLM", "conv_kernel", 17, "conv_kernel"},
      {"Mamba2ForCausalLM", "time_step_limit", {0.0, 0.1}, "time_step_limit"},
      {"Mamba2ForCausalLM", "time_step_limit", {0.001, "Infinity"}, "time_step_limit"},
      {"BambaForCausalLM", "mamba_d_state", 0, "mamba_d_state"},
      {"BambaForCausalLM", "mamba_d_conv", nullptr, "mamba_d_conv"},
      {"BambaForCausalLM", "mamba_n_groups", 5, "mamba_n_groups"},
      {"BambaForCausalLM", "mamba_d_head", "large", "mamba_d_head"},
      {"BambaForCausalLM", "attn_layer_indices", {4}, "attn_layer_indices"},
      {"FalconH1ForCausalLM", "mamba_d_ssm", 0, "mamba_d_ssm"},
      {"FalconH1ForCausalLM", "mamba_d_ssm", 100, "mamba_n_heads"},
      {"FalconH1ForCausalLM", "mamba_d_state", 0, "mamba_d_state"},
      {"FalconH1ForCausalLM", "mamba_n_heads", 0, "mamba_n_heads"},
      {"FalconH1ForCausalLM", "mlp_multipliers", {1}, "mlp_multipliers"},
      {"FalconH1ForCausalLM", "ssm_multipliers", {1, 1, 1, 1, "large"}, "ssm_multipliers"},
      {"FalconH1ForCausalLM", "ssm_multipliers", {1, 1, 1, 1, 1e30}, "ssm_multipliers"},
      {"FalconH1ForCausalLM", "key_multiplier", "large", "key_multiplier"},
      {"FalconH1ForCausalLM", "projectors_bias", true, "projectors_bias"},
      {"GraniteMoeForCausalLM", "num_local_experts", 0, "num_local_experts"},
      {"GraniteMoeHybridForCausalLM", "num_local_experts", 1, "num_experts_per_tok"},
      {"GraniteMoeHybridForCausalLM", "layer_types", {"mamba"}, "layer_types"},
      {"GraniteMoeHybridForCausalLM",
       "layers_block_type",
       {"mamba", "mamba", "attention", "lstm"},
       "layers_block_type"},
      {"GraniteMoeHybridForCausalLM",
       "position_embedding_type",
       "alibi",
       "position_embedding_type"},
      {"Qwen3NextForCausalLM", "linear_num_key_heads", 3, "linear_num_key_heads"},
      {"BertModel", "position_embedding_type", "relative_key", "position_embedding_type"},
      {"BertModel", "position_embedding_type", "rotary", "position_embedding_type"},
      {"BertModel", "rope_theta", 10000, "rope_theta"},
      {"BertModel", "rope_scaling", {{"type", "linear"}, {"factor", 2}}, "rope_scaling"},
      {"BertModel", "rope_parameters", {{"rope_theta", 1e6}}, "rope_parameters"},
      {"BertModel", "rotary_emb_base", 1000, "rotary_emb_base"},
      {"BertModel", "rotary_emb_fraction", 1, "rotary_emb_fraction"},
      {"BertModel", "type_vocab_size", 0, "type_vocab_size"},
      {"BertModel", "is_decoder", true, "is_decoder"},
      {"RobertaModel", "max_position_embeddings", 2, "max_position_embeddings"},
      {"RobertaModel", "pad_token_id", 255, "pad_token_id"},
      {"XLMRobertaModel", "pad_token_id", -1, "pad_token_id"},
      {"XLMRobertaModel", "rope_theta", 10000, "rope_theta"},
      {"XLMRobertaModel", "position_embedding_type", "relative_key", "position_embedding_type"},
      {"Qwen3NextForCausalLM", "linear_num_value_heads", 0, "linear_num_value_heads"},
      {"Qwen3NextForCausalLM", "linear_key_head_dim", nullptr, "linear_key_head_dim"},
      {"Qwen3NextForCausalLM", "linear_value_head_dim", 1 << 20, "linear_value_head_dim"},
      {"Qwen3NextForCausalLM", "full_attention_interval", 0, "full_attention_interval"},
      {"Qwen3NextForCausalLM", "num_experts", 0, "num_experts"},
      {"Qwen3_5ForCausalLM", "partial_rotary_factor", 0.0, "partial_rotary_factor"},
      {"GptOssForCausalLM", "swiglu_alpha", 1.5, "swiglu_alpha"},
      {"GptOssForCausalLM", "swiglu_limit", 0, "swiglu_limit"},
      {"GptOssForCausalLM", "sliding_window", 0, "sliding_window"},
      {"DeepseekV2ForCausalLM", "kv_lora_rank", 0, "kv_lora_rank"},
      {"DeepseekV2ForCausalLM", "kv_lora_rank", 65, "kv_lora_rank"},
      {"DeepseekV2ForCausalLM", "kv_lora_rank", 1 << 20, "kv_lora_rank"},
      {"DeepseekV2ForCausalLM", "qk_rope_head_dim", 7, "qk_rope_head_dim"},
      {"DeepseekV2ForCausalLM", "v_head_dim", nullptr, "v_head_dim"},
      {"DeepseekV2ForCausalLM", "attention_bias", true, "attention_bias"},
      {"DeepseekV2ForCausalLM", "n_routed_experts", 0, "n_routed_experts"},
      {"DeepseekV2ForCausalLM", "topk_method", "noaux_tc", "topk_method"},
      {"DeepseekV2ForCausalLM", "norm_topk_prob", true, "norm_topk_prob"},
      {"DeepseekV3ForCausalLM", "n_group", 3, "n_group"},
      {"DeepseekV3ForCausalLM", "n_group", 8, "n_group"},
      {"DeepseekV3ForCausalLM", "topk_group", 2, "topk_group"},
      {"DeepseekV3ForCausalLM", "num_experts_per_tok", 9, "num_experts_per_tok"},
      {"DeepseekV3ForCausalLM", "q_lora_rank", 0, "q_lora_rank"},
      {"DeepseekV3ForCausalLM", "routed_scaling_factor", 0, "routed_scaling_factor"},
      {"DeepseekV3ForCausalLM", "n_shared_experts", 1 << 20, "n_shared_experts"},
      {"Gemma2ForCausalLM", "sliding_window", 0, "sliding_window"},
      {"Gemma2ForCausalLM", "attn_logit_softcapping", -1, "attn_logit_softcapping"},
      {"Gemma2ForCausalLM", "query_pre_attn_scalar", 0, "query_pre_attn_scalar"},
      {"Gemma2ForCausalLM", "hidden_activation", "relu", "hidden_activation"},
      {"Gemma3ForCausalLM", "sliding_window_pattern", 0, "sliding_window_pattern"},
      {"Gemma3ForCausalLM", "rope_local_base_freq", 0, "rope_local_base_freq"},
      {"Phi3ForCausalLM", "layer_types", window_layers, "layer_types"},
      {"Phi3ForCausalLM", "partial_rotary_factor", 0.45, "partial_rotary_factor"},
      {"Phi3ForCausalLM", "rope_scaling", {{"type", "longrope"}}, "rope_scaling.short_factor"},
      {"SmolLM3ForCausalLM", "no_rope_layers", {1, 0}, "no_rope_layers"},
      {"SmolLM3ForCausalLM", "no_rope_layer_interval", 0, "no_rope_layer_interval"},
      {"SmolLM3ForCausalLM", "layer_types", window_layers, "layer_types"},
      {"GraniteForCausalLM", "logits_scaling", 0, "logits_scaling"},
      {"GraniteForCausalLM", "residual_multiplier", -1, "residual_multiplier"},
      {"MiniCPMForCausalLM", "scale_depth", 0, "scale_depth"},
      {"MiniCPMForCausalLM", "dim_model_base", 0, "dim_model_base"},
      {"Glm4ForCausalLM", "partial_rotary_factor", 0.0, "partial_rotary_factor"},
      {"Olmo2ForCausalLM", "num_key_value_heads", 3, "num_key_value_heads"},
      {"GPT2LMHeadModel", "n_head", 3, "n_head"},
      {"GPT2LMHeadModel", "n_embd", nullptr, "n_embd"},
      {"GPT2LMHeadModel", "scale_attn_by_inverse_layer_idx", 1, "scale_attn_by_inverse_layer_idx"},
      {"Ministral3ForCausalLM",
       "rope_parameters",
       {{"rope_type", "default"}, {"llama_4_scaling_beta", 0.1}},
       "rope_parameters.llama_4_scaling_beta"},
      {"XLMRobertaXLModel", "layer_norm_eps", 2, "layer_norm_eps"},
      {"DistilBertModel", "dim", nullptr, "dim"},
      {"DistilBertModel", "n_heads", 3, "n_heads"},
      {"DistilBertModel", "activation", "silu", "activation"},
      {"ModernBertModel", "local_attention", 0, "local_attention"},
      {"ModernBertModel", "global_attn_every_n_layers", 0, "global_attn_every_n_layers"},
      {"ModernBertModel", "hidden_activation", "mish", "hidden_activation"},
      {"ModernBertModel", "layer_types", {"full_attention"}, "layer_types"},
      {"NomicBertModel", "activation_function", "gelu", "activation_function"},
      {"NomicBertModel", "prenorm", true, "prenorm"},
      {"NomicBertModel", "qkv_proj_bias", true, "qkv_proj_bias"},
      {"NomicBertModel", "rotary_emb_fraction", 0.01, "rotary_emb_fraction"},
      {"NomicBertModel",
       "rope_parameters",
       {{"rope_type", "dynamic"}, {"factor", 2}},
       "rope_parameters"},
      {"GptOssForCausalLM", "is_causal", false, "is_causal"},
      {"GPT2LMHeadModel", "activation_function", "silu", "activation_function"},
      {"BartForConditionalGeneration", "encoder_layers", 0, "encoder_layers"},
      {"BartForConditionalGeneration", "decoder_layers", 0, "decoder_layers"},
      {"BartForConditionalGeneration", "encoder_layers", int64_t{1} << 40, "encoder_layers"},
      {"BartForConditionalGeneration", "encoder_ffn_dim", nullptr, "encoder_ffn_dim"},
      {"BartForConditionalGeneration", "encoder_ffn_dim", int64_t{1} << 40, "encoder_ffn_dim"},
      {"BartForConditionalGeneration", "d_model", nullptr, "d_model"},
      {"BartForConditionalGeneration", "encoder_attention_heads", 8, "encoder_attention_heads"},
      {"BartForConditionalGeneration", "decoder_attention_heads", 3, "decoder_attention_heads"},
      {"BartForConditionalGeneration", "decoder_start_token_id", nullptr, "decoder_start_token_id"},
      {"BartForConditionalGeneration", "decoder_start_token_id", 100, "decoder_start_token_id"},
      {"BartForConditionalGeneration", "forced_bos_token_id", -1, "forced_bos_token_id"},
      {"BartForConditionalGeneration", "is_encoder_decoder", false, "is_encoder_decoder"},
      {"BartForConditionalGeneration", "normalize_before", true, "normalize_before"},
      {"BartForConditionalGeneration", "activation_function", "tanh", "activation_function"},
      {"OPTForCausalLM", "word_embed_proj_dim", 0, "word_embed_proj_dim"},
      {"OPTForCausalLM", "word_embed_proj_dim", 1 << 20, "word_embed_proj_dim"},
      {"OPTForCausalLM", "do_layer_norm_before", 0, "do_layer_norm_before"},
      {"OPTForCausalLM", "ffn_dim", 0, "ffn_dim"},
      {"GPTNeoXForCausalLM", "rotary_pct", 0.45, "rotary_pct"},
      {"GPTNeoXForCausalLM", "rotary_emb_base", 0, "rotary_emb_base"},
      {"FalconForCausalLM", "alibi", "yes", "alibi"},
      {"GemmaForCausalLM", "head_dim", 7, "head_dim"},
      {"GlmForCausalLM", "partial_rotary_factor", 1.5, "partial_rotary_factor"},
      {"SeedOssForCausalLM", "attention_out_bias", 1, "attention_out_bias"},
      {"Ernie4_5ForCausalLM", "use_bias", "yes", "use_bias"},
      {"Glm4MoeForCausalLM", "n_routed_experts", nullptr, "n_routed_experts"},
      {"Glm4MoeForCausalLM", "norm_topk_prob", 2, "norm_topk_prob"},
      {"SolarOpenForCausalLM", "n_group", 3, "n_group"},
      {"MiniMaxM2ForCausalLM", "shared_intermediate_size", 8, "shared_intermediate_size"},
      {"MiniMaxM2ForCausalLM", "use_routing_bias", false, "use_routing_bias"},
      {"MiniMaxM2ForCausalLM", "attn_type_list", {1, 0, 1, 1}, "attn_type_list"},
      {"MiniMaxM2ForCausalLM", "scoring_func", "softmax", "scoring_func"},
      {"Ernie4_5_MoeForCausalLM", "use_bias", true, "use_bias"},
      {"Ernie4_5_MoeForCausalLM", "moe_k", 99, "moe_k"},
      {"Ernie4_5_MoeForCausalLM", "moe_norm_min", 0.5, "moe_norm_min"},
      {"DeepseekV3ForCausalLM", "scoring_func", "softmax", "scoring_func"},
      {"DeepseekV3ForCausalLM", "topk_method", "greedy", "topk_method"},
      {"Mistral4ForCausalLM", "scoring_func", "sigmoid", "scoring_func"},
      {"DeepseekV2ForCausalLM", "mlp_bias", true, "mlp_bias"},
      {"BertModel", "add_cross_attention", true, "add_cross_attention"},
      {"HunYuanDenseV1ForCausalLM", "use_qk_norm", false, "use_qk_norm"},
      {"HunYuanMoEV1ForCausalLM", "moe_topk", {1, 2}, "moe_topk"},
      {"HunYuanMoEV1ForCausalLM", "num_shared_expert", 2, "num_shared_expert"},
      {"HunYuanMoEV1ForCausalLM", "moe_intermediate_size", 7, "moe_intermediate_size"},
      {"Exaone4ForCausalLM", "sliding_window_pattern", "GLL", "sliding_window_pattern"},
      {"Exaone4ForCausalLM", "sliding_window_pattern", "", "sliding_window_pattern"},
      {"Starcoder2ForCausalLM", "sliding_window", 0, "sliding_window"},
      {"CohereForCausalLM", "use_qk_norm", 1, "use_qk_norm"},
      {"CohereForCausalLM", "logit_scale", 0, "logit_scale"},
      {"Cohere2ForCausalLM", "use_qk_norm", true, "use_qk_norm"},
      {"Cohere2ForCausalLM", "sliding_window_pattern", 0, "sliding_window_pattern"},
      {"Olmo3ForCausalLM", "layer_types", {"full_attention"}, "layer_types"},
      {"GPTBigCodeForCausalLM", "multi_query", 2, "multi_query"},
      {"OlmoeForCausalLM", "clip_qkv", 0, "clip_qkv"},
      {"OlmoeForCausalLM", "clip_qkv", "8", "clip_qkv"},
      {"OlmoeForCausalLM", "num_experts", 1, "num_experts_per_tok"},
      {"StableLmForCausalLM", "qk_layernorm", 1, "qk_layernorm"},
      {"Llama4ForCausalLM", "num_local_experts", 0, "num_local_experts"},
      {"Llama4ForCausalLM", "num_experts_per_tok", 5, "num_experts_per_tok"},
      {"Llama4ForCausalLM", "intermediate_size_mlp", nullptr, "intermediate_size_mlp"},
      {"Llama4ForCausalLM", "attention_chunk_size", 0, "attention_chunk_size"},
      {"Llama4ForCausalLM", "attention_chunk_size", "large", "attention_chunk_size"},
      {"Llama4ForCausalLM", "no_rope_layers", {1, 0}, "no_rope_layers"},
      {"Llama4ForCausalLM", "moe_layers", {4}, "moe_layers"},
      {"Llama4ForCausalLM", "interleave_moe_layer_step", 0, "interleave_moe_layer_step"},
      {"Llama4ForCausalLM", "floor_scale", 0, "floor_scale"},
      {"Llama4ForCausalLM", "attn_temperature_tuning", "often", "attn_temperature_tuning"},
      {"Llama4ForCausalLM", "layer_types", {"chunked_attention"}, "layer_types"},
      {"LlamaForCausalLM",
       "layer_types",
       {"chunked_attention", "full_attention", "full_attention", "full_attention"},
       "layer_types"},
      {"StableLmForCausalLM", "partial_rotary_factor", 0.05, "partial_rotary_factor"},
  };
  for (const Malformed& c : cases) {
    EXPECT_EQ(family_refusal(complete(c.architecture, c.key, c.value)),
              std::string("E_CONFIG ") + c.field)
        << c.architecture << " " << c.key << " " << c.value.dump();
  }
  Json many = complete("Qwen3MoeForCausalLM", "num_experts", 1024);
  many["num_hidden_layers"] = 1024;
  EXPECT_EQ(family_refusal(many), "E_CONFIG num_experts");
  Json falcon = complete("FalconForCausalLM", "new_decoder_architecture", true);
  falcon["num_kv_heads"] = 3;
  EXPECT_EQ(family_refusal(falcon), "E_CONFIG num_kv_heads");
  Json no_original = complete("Phi3ForCausalLM",
                              "rope_scaling",
                              {{"type", "longrope"},
                               {"short_factor", std::vector<double>(8, 1.0)},
                               {"long_factor", std::vector<double>(8, 1.0)}});
  EXPECT_EQ(family_refusal(no_original), "E_CONFIG original_max_position_embeddings");
  no_original["rope_scaling"]["long_factor"][3] = 0;
  EXPECT_EQ(family_refusal(no_original), "E_CONFIG rope_scaling.long_factor");
}

// The members of published config.json files that decide the computation.
TEST(Families, accept_configs_as_published) {
  const std::vector<const char*> published = {
      R"({"architectures": ["GPT2LMHeadModel"], "activation_function": "gelu_new", "bos_token_id": 50256,
          "eos_token_id": 50256, "layer_norm_epsilon": 1e-05, "model_type": "gpt2", "n_ctx": 1024, "n_embd": 768,
          "n_head": 12, "n_layer": 12, "n_positions": 1024, "vocab_size": 50257})",
      R"({"architectures": ["OPTForCausalLM"], "activation_function": "relu", "bos_token_id": 2, "do_layer_norm_before":
          true, "eos_token_id": 2, "ffn_dim": 3072, "hidden_size": 768, "max_position_embeddings": 2048,
          "num_attention_heads": 12, "num_hidden_layers": 12, "torch_dtype": "float16", "vocab_size": 50272,
          "word_embed_proj_dim": 768})",
      R"({"architectures": ["GPTNeoXForCausalLM"], "hidden_act": "gelu", "hidden_size": 512, "intermediate_size": 2048,
          "layer_norm_eps": 1e-05, "max_position_embeddings": 2048, "num_attention_heads": 8, "num_hidden_layers": 6,
          "rotary_emb_base": 10000, "rotary_pct": 0.25, "tie_word_embeddings": false, "use_parallel_residual": true,
          "vocab_size": 50304})",
      R"({"architectures": ["FalconForCausalLM"], "alibi": false, "bias": false, "hidden_size": 4544,
          "layer_norm_epsilon": 1e-05, "multi_query": true, "new_decoder_architecture": false, "num_attention_heads": 71,
          "num_hidden_layers": 32, "num_kv_heads": 71, "parallel_attn": true, "vocab_size": 65024})",
      R"({"architectures": ["MixtralForCausalLM"], "hidden_act": "silu", "hidden_size": 4096, "intermediate_size": 14336,
          "max_position_embeddings": 32768, "num_attention_heads": 32, "num_experts_per_tok": 2, "num_hidden_layers": 32,
          "num_key_value_heads": 8, "num_local_experts": 8, "rms_norm_eps": 1e-05, "rope_theta": 1000000.0,
          "sliding_window": null, "tie_word_embeddings": false, "vocab_size": 32000})",
      R"({"architectures": ["Qwen3MoeForCausalLM"], "attention_bias": false, "decoder_sparse_step": 1, "head_dim": 128,
          "hidden_size": 2048, "intermediate_size": 6144, "max_position_embeddings": 40960, "max_window_layers": 48,
          "mlp_only_layers": [], "moe_intermediate_size": 768, "norm_topk_prob": true, "num_attention_heads": 32,
          "num_experts": 128, "num_experts_per_tok": 8, "num_hidden_layers": 48, "num_key_value_heads": 4,
          "rope_scaling": null, "rope_theta": 1000000.0, "sliding_window": null, "use_sliding_window": false,
          "vocab_size": 151936})",
      R"({"architectures": ["Glm4ForCausalLM"], "attention_bias": false, "eos_token_id": [151329, 151336], "head_dim": 128,
          "hidden_act": "silu", "hidden_size": 4096, "intermediate_size": 13696, "max_position_embeddings": 32768,
          "num_attention_heads": 32, "num_hidden_layers": 40, "num_key_value_heads": 2, "partial_rotary_factor": 0.5,
          "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "vocab_size": 151552})",
      R"({"architectures": ["GraniteForCausalLM"], "attention_multiplier": 0.015625, "embedding_multiplier": 12.0,
          "hidden_size": 2048, "intermediate_size": 8192, "logits_scaling": 8.0, "max_position_embeddings": 131072,
          "num_attention_heads": 32, "num_hidden_layers": 40, "num_key_value_heads": 8, "residual_multiplier": 0.22,
          "rope_theta": 5000000.0, "tie_word_embeddings": true, "vocab_size": 49155})",
      R"({"architectures": ["SmolLM3ForCausalLM"], "hidden_size": 2048, "intermediate_size": 11008,
          "layer_types": ["full_attention", "full_attention", "full_attention", "full_attention"],
          "max_position_embeddings": 65536, "no_rope_layer_interval": 4, "no_rope_layers": [1, 1, 1, 0],
          "num_attention_heads": 16, "num_hidden_layers": 4, "num_key_value_heads": 4, "rope_theta": 5000000.0,
          "sliding_window": null, "use_sliding_window": false, "vocab_size": 128256})",
      R"({"architectures": ["MambaForCausalLM"], "conv_kernel": 4, "expand": 2, "hidden_size": 768,
          "intermediate_size": 1536, "layer_norm_epsilon": 1e-05, "model_type": "mamba", "num_hidden_layers": 24,
          "state_size": 16, "time_step_rank": 48, "use_bias": false, "use_conv_bias": true, "vocab_size": 50280})",
      R"({"architectures": ["Mamba2ForCausalLM"], "chunk_size": 256, "conv_kernel": 4, "expand": 2, "head_dim": 64,
          "hidden_act": "silu", "hidden_size": 768, "layer_norm_epsilon": 1e-05, "n_groups": 1, "num_heads": 24,
          "num_hidden_layers": 24, "state_size": 128, "tie_word_embeddings": true, "use_bias": false,
          "time_step_limit": [0.0, {"__float__": "Infinity"}], "use_conv_bias": true, "vocab_size": 50288})",
      R"({"architectures": ["BambaForCausalLM"], "attn_layer_indices": [9, 18, 27], "hidden_size": 4096,
          "intermediate_size": 14336, "mamba_conv_bias": true, "mamba_d_conv": 4, "mamba_d_head": 64,
          "mamba_d_state": 128, "mamba_expand": 2, "mamba_n_groups": 1, "mamba_n_heads": 128, "mamba_proj_bias": false,
          "max_position_embeddings": 262144, "num_attention_heads": 32, "num_hidden_layers": 32,
          "num_key_value_heads": 8, "rms_norm_eps": 1e-05, "tie_word_embeddings": false, "vocab_size": 128256})",
      R"({"architectures": ["FalconH1ForCausalLM"], "attention_bias": false, "attention_in_multiplier": 1.0,
          "attention_out_multiplier": 0.9375, "embedding_multiplier": 5.656854249492381, "head_dim": 64,
          "hidden_act": "silu", "hidden_size": 1024, "intermediate_size": 2048, "key_multiplier": 0.390625,
          "lm_head_multiplier": 0.0390625, "mamba_conv_bias": true, "mamba_d_conv": 4, "mamba_d_head": 64,
          "mamba_d_ssm": 1536, "mamba_d_state": 128, "mamba_expand": 2, "mamba_n_groups": 1, "mamba_n_heads": 24,
          "mamba_norm_before_gate": false, "mamba_proj_bias": false, "mamba_rms_norm": false,
          "max_position_embeddings": 16384, "mlp_multipliers": [0.8838834764831844, 0.5859375],
          "num_attention_heads": 8, "num_hidden_layers": 36, "num_key_value_heads": 2, "projectors_bias": false,
          "rms_norm_eps": 1e-05, "rope_theta": 100000000000.0, "ssm_in_multiplier": 1.25,
          "ssm_multipliers": [0.3535533905932738, 0.25, 0.3535533905932738, 0.5, 0.3535533905932738],
          "ssm_out_multiplier": 0.23570226039551587, "vocab_size": 32784})",
      R"({"architectures": ["GraniteMoeHybridForCausalLM"], "attention_multiplier": 0.015625, "embedding_multiplier": 12,
          "hidden_size": 768, "intermediate_size": 2048, "layer_types": ["mamba", "mamba", "attention", "mamba"],
          "logits_scaling": 3, "mamba_d_conv": 4, "mamba_d_head": 32, "mamba_d_state": 128, "mamba_expand": 2,
          "mamba_n_groups": 1, "mamba_n_heads": 48, "max_position_embeddings": 32768, "num_attention_heads": 12,
          "num_experts_per_tok": 0, "num_hidden_layers": 4, "num_key_value_heads": 4, "num_local_experts": 0,
          "position_embedding_type": "nope", "residual_multiplier": 0.246, "shared_intermediate_size": 2048,
          "tie_word_embeddings": true, "vocab_size": 100352})",
      R"({"architectures": ["Qwen3NextForCausalLM"], "attention_bias": false, "decoder_sparse_step": 1,
          "full_attention_interval": 4, "head_dim": 256, "hidden_act": "silu", "hidden_size": 2048,
          "intermediate_size": 5120, "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128,
          "linear_num_key_heads": 16, "linear_num_value_heads": 32, "linear_value_head_dim": 128,
          "max_position_embeddings": 262144, "mlp_only_layers": [], "moe_intermediate_size": 512,
          "norm_topk_prob": true, "num_attention_heads": 16, "num_experts": 512, "num_experts_per_tok": 10,
          "num_hidden_layers": 48, "num_key_value_heads": 2, "partial_rotary_factor": 0.25, "rope_theta": 10000000,
          "shared_expert_intermediate_size": 512, "vocab_size": 151936})"};
  for (const char* text : published) {
    const LoadedModelConfig loaded = load_text(text);
    SCOPED_TRACE(architecture_name(loaded.config.architecture));
    EXPECT_TRUE(loaded.warnings.empty());
    EXPECT_GT(num_parameters(loaded.config), 1'000'000);
  }
  EXPECT_EQ(num_parameters(load_text(published[0]).config), 124'439'808);     // GPT-2
  EXPECT_EQ(num_parameters(load_text(published[2]).config), 70'426'624);      // Pythia-70m
  EXPECT_EQ(num_parameters(load_text(published[3]).config), 6'921'720'704);   // Falcon-7B
  EXPECT_EQ(num_parameters(load_text(published[4]).config), 46'702'792'704);  // Mixtral-8x7B
  EXPECT_EQ(num_parameters(load_text(published[5]).config), 30'532'122'624);  // Qwen3-30B-A3B
  // As Transformers counts them.
  EXPECT_EQ(num_parameters(load_text(published[9]).config), 129'135'360);
  EXPECT_EQ(num_parameters(load_text(published[10]).config), 128'989'632);
  EXPECT_EQ(num_parameters(load_text(published[11]).config), 9'780'235'392);
  EXPECT_EQ(num_parameters(load_text(published[12]).config), 521'411'104);  // Falcon-H1-0.5B
  EXPECT_EQ(num_parameters(load_text(published[14]).config), 79'674'391'296);
}

TEST(Families, experts_chosen_by_a_bias_have_the_parameters_of_their_classes) {
  // Members with the defaults of Transformers 5.24 and the published size of a head, and the number
  // of parameters and biases that Transformers counts.
  const std::vector<std::pair<const char*, int64_t>> classes = {
      {R"({"architectures": ["Glm4MoeForCausalLM"], "first_k_dense_replace": 1, "head_dim": 128, "hidden_size": 4096,
           "intermediate_size": 10944, "max_position_embeddings": 131072, "moe_intermediate_size": 1408, "n_group": 1,
           "n_routed_experts": 128, "n_shared_experts": 1, "norm_topk_prob": true, "num_attention_heads": 96,
           "num_experts_per_tok": 8, "num_hidden_layers": 46, "num_key_value_heads": 8, "partial_rotary_factor": 0.5,
           "topk_group": 1, "use_qk_norm": false, "vocab_size": 151552})",
       106'851'591'808},
      {R"({"architectures": ["Glm4MoeLiteForCausalLM"], "hidden_size": 2048, "intermediate_size": 10240,
           "kv_lora_rank": 512, "max_position_embeddings": 202752, "moe_intermediate_size": 1536, "n_group": 1,
           "n_routed_experts": 64, "n_shared_experts": 1, "num_attention_heads": 20, "num_experts_per_tok": 4,
           "num_hidden_layers": 47, "num_key_value_heads": 20, "q_lora_rank": 768, "qk_nope_head_dim": 192,
           "qk_rope_head_dim": 64, "routed_scaling_factor": 1.8, "topk_group": 1, "v_head_dim": 256,
           "vocab_size": 154880})",
       29'943'393'920},
      {R"({"architectures": ["SolarOpenForCausalLM"], "head_dim": 128, "hidden_size": 4096,
           "max_position_embeddings": 131072, "moe_intermediate_size": 1280, "n_routed_experts": 128,
           "n_shared_experts": 1, "num_attention_heads": 64, "num_experts_per_tok": 8, "num_hidden_layers": 48,
           "num_key_value_heads": 8, "vocab_size": 196608})",
       102'651'799'552},
      {R"({"architectures": ["MiniMaxM2ForCausalLM"], "attn_type_list": [1, 1], "hidden_size": 3072,
           "intermediate_size": 1536, "max_position_embeddings": 196608, "num_attention_heads": 48,
           "num_experts_per_tok": 8, "num_hidden_layers": 62, "num_key_value_heads": 8, "num_local_experts": 256,
           "qk_norm_type": "per_layer", "rotary_dim": 64, "scoring_func": "sigmoid", "shared_intermediate_size": 0,
           "use_qk_norm": true, "use_routing_bias": true, "vocab_size": 200064})",
       228'689'764'864},
      {R"({"architectures": ["Ernie4_5_MoeForCausalLM"], "hidden_size": 2560, "intermediate_size": 12288,
           "max_position_embeddings": 131072, "moe_intermediate_size": 1536, "moe_k": 6, "moe_layer_end_index": 27,
           "moe_layer_interval": 1, "moe_layer_start_index": 1, "moe_num_experts": 64, "moe_num_shared_experts": 2,
           "num_attention_heads": 20, "num_hidden_layers": 28, "num_key_value_heads": 4, "tie_word_embeddings": true,
           "vocab_size": 103424})",
       21'825'437'888},
      {R"({"architectures": ["Exaone4ForCausalLM"], "hidden_size": 4096, "intermediate_size": 16384,
           "max_position_embeddings": 2048, "num_attention_heads": 32, "num_hidden_layers": 32,
           "num_key_value_heads": 32, "sliding_window": 4096, "sliding_window_pattern": "LLLG",
           "vocab_size": 102400})",
       9'429'069'824},
  };
  for (const auto& [text, parameters] : classes) {
    SCOPED_TRACE(text);
    EXPECT_EQ(num_parameters(load_text(text).config), parameters);
  }
}

TEST(Families, reads_the_parts_of_a_head_that_minimax_rotates) {
  const auto rope = [](const char* more) {
    return load_text(
               std::string(
                   R"({"architectures": ["MiniMaxM2ForCausalLM"], "hidden_size": 64, "head_dim": 16,
        "intermediate_size": 32, "max_position_embeddings": 64, "num_attention_heads": 4, "num_hidden_layers": 2,
        "num_key_value_heads": 2, "num_local_experts": 8, "vocab_size": 96)") +
               more + "}")
        .config.rope;
  };
  EXPECT_EQ(rope("").rotary_dim, 0);
  EXPECT_EQ(rope(R"(, "rotary_dim": 8)").rotary_dim, 8);
  EXPECT_EQ(rope("").theta, 5e6);
}

TEST(Families, reads_hunyuan_as_published) {
  const ModelConfig config =
      load_text(
          R"({"architectures": ["HunYuanMoEV1ForCausalLM"], "head_dim": 128, "hidden_size": 4096,
          "intermediate_size": 3072, "max_position_embeddings": 32768, "moe_intermediate_size": [3072, 3072],
          "moe_topk": [8, 8], "num_attention_heads": 32, "num_experts": 64, "num_hidden_layers": 2,
          "num_key_value_heads": 8, "num_shared_expert": [1, 1], "rms_norm_eps": 1e-05,
          "rope_scaling": {"alpha": 1000.0, "beta_fast": 32, "beta_slow": 1, "factor": 1.0, "mscale": 1.0,
          "mscale_all_dim": 1.0, "type": "dynamic"}, "rope_theta": 10000.0, "tie_word_embeddings": true,
          "use_qk_norm": true, "vocab_size": 128167})")
          .config;
  EXPECT_TRUE(config.norms_rotated_heads);
  EXPECT_EQ(config.moe->top_k, 8);
  EXPECT_EQ(config.moe->shared_intermediate_size, 3072);
  EXPECT_EQ(config.rope.type, RopeType::standard);
  EXPECT_DOUBLE_EQ(config.rope.theta, 10000 * std::pow(1000.0, 128.0 / 126));
}

TEST(Families, only_layers_of_exaone_4_with_a_window_rotate) {
  const auto config = [](const char* more) {
    return load_text(
               std::string(
                   R"({"architectures": ["Exaone4ForCausalLM"], "hidden_size": 64, "intermediate_size": 64,
        "max_position_embeddings": 64, "num_attention_heads": 4, "num_hidden_layers": 4, "num_key_value_heads": 2,
        "vocab_size": 96)") +
               more + "}")
        .config;
  };
  const ModelConfig hybrid = config(R"(, "sliding_window": 8, "sliding_window_pattern": "LG")");
  EXPECT_TRUE(hybrid.rotates(0) && hybrid.window_of_layer(0) == 8);
  EXPECT_TRUE(!hybrid.rotates(1) && !hybrid.window_of_layer(1));
  const ModelConfig plain = config(R"(, "sliding_window": null)");
  for (int64_t layer = 0; layer < 4; ++layer) {
    EXPECT_TRUE(plain.rotates(layer) && !plain.window_of_layer(layer));
  }
}

TEST(Families, reads_gemma_3_as_published) {
  const ModelConfig config =
      load_text(R"({"architectures": ["Gemma3ForCausalLM"], "attention_bias": false,
      "attn_logit_softcapping": null, "bos_token_id": 2, "eos_token_id": [1, 106], "final_logit_softcapping": null,
      "head_dim": 256, "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 1152, "intermediate_size": 6912,
      "max_position_embeddings": 32768, "model_type": "gemma3_text", "num_attention_heads": 4, "num_hidden_layers": 26,
      "num_key_value_heads": 1, "query_pre_attn_scalar": 256, "rms_norm_eps": 1e-06, "rope_local_base_freq": 10000,
      "rope_scaling": {"rope_type": "linear", "factor": 8.0}, "rope_theta": 1000000, "sliding_window": 512,
      "sliding_window_pattern": 6, "torch_dtype": "bfloat16", "vocab_size": 262144})")
          .config;
  EXPECT_EQ(config.norm, NormType::gemma_rms_norm);
  EXPECT_EQ(config.activation, Activation::gelu_tanh);
  EXPECT_EQ(config.qk_norm, QkNorm::per_head);
  EXPECT_EQ(config.attention_scale, 1.0 / 16);
  EXPECT_EQ(config.embedding_scale, std::sqrt(1152.0));
  EXPECT_EQ(config.attention_soft_cap, 0);
  EXPECT_TRUE(config.tie_word_embeddings);
  EXPECT_EQ(config.window_of_layer(4), 512);
  EXPECT_EQ(config.window_of_layer(5), std::nullopt);
  EXPECT_EQ(config.rope_of_layer(5).theta, 1e6);
  EXPECT_EQ(config.rope_of_layer(5).type, RopeType::linear);
  EXPECT_EQ(config.rope_of_layer(4), RopeParameters{});
}

TEST(Families, reads_gemma_2_with_caps_and_alternating_windows) {
  const ModelConfig config = load_text(complete("Gemma2ForCausalLM").dump()).config;
  EXPECT_EQ(config.attention_soft_cap, 50);
  EXPECT_EQ(config.logits_soft_cap, 30);
  EXPECT_EQ(config.head_dim, 256);
  EXPECT_EQ(config.window_of_layer(0), 4096);
  EXPECT_EQ(config.window_of_layer(1), std::nullopt);
  const Json uncapped = complete("Gemma2ForCausalLM", "attn_logit_softcapping", nullptr);
  EXPECT_EQ(load_text(uncapped.dump()).config.attention_soft_cap, 0);
}

TEST(Families, reads_phi_3_with_longrope_in_the_old_spelling) {
  Json json = complete("Phi3ForCausalLM");
  json["original_max_position_embeddings"] = 64;
  json["rope_scaling"] = {{"type", "su"},
                          {"short_factor", std::vector<double>(8, 1.0)},
                          {"long_factor", std::vector<double>(8, 2.0)}};
  const ModelConfig config = load_text(json.dump()).config;
  EXPECT_EQ(config.rope.type, RopeType::longrope);
  EXPECT_EQ(config.rope.original_max_position_embeddings, 64);
  EXPECT_THAT(config.rope.long_factors, ElementsAre(2, 2, 2, 2, 2, 2, 2, 2));
  // 256 positions, of which 64 are the original ones: a factor of 4.
  EXPECT_DOUBLE_EQ(config.rope.attention_factor, std::sqrt(1 + std::log(4.0) / std::log(64.0)));
  EXPECT_EQ(config.qkv_layout, QkvLayout::stacked);
  const DecoderTensors names = decoder_tensors(config);
  EXPECT_EQ(names.in_layer(1, names.qkv), "model.layers.1.self_attn.qkv_proj");
}

TEST(Families, reads_yarn_with_its_defaults) {
  const Json json =
      complete("LlamaForCausalLM",
               "rope_scaling",
               {{"rope_type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 64}});
  const RopeParameters rope = load_text(json.dump()).config.rope;
  EXPECT_EQ(rope.type, RopeType::yarn);
  EXPECT_EQ(rope.beta_fast, 32);
  EXPECT_EQ(rope.beta_slow, 1);
  EXPECT_DOUBLE_EQ(rope.attention_factor, 0.1 * std::log(4.0) + 1);
}

TEST(Families, opt_may_have_norms_after_the_sums_and_a_smaller_embedding) {
  const ModelConfig usual = load_text(complete("OPTForCausalLM").dump()).config;
  EXPECT_FALSE(usual.has_post_norms);
  EXPECT_EQ(usual.embedding_size, 0);
  Json config = complete("OPTForCausalLM", "do_layer_norm_before", false);
  config["word_embed_proj_dim"] = 64;  // hidden_size
  EXPECT_EQ(load_text(config.dump()).config.embedding_size, 0);
  config["word_embed_proj_dim"] = 32;
  const ModelConfig read = load_text(config.dump()).config;
  EXPECT_TRUE(read.has_post_norms);
  EXPECT_EQ(read.embedding_size, 32);
  const DecoderTensors names = decoder_tensors(read);
  EXPECT_TRUE(names.final_norm.empty() && names.attention_norm.empty() && names.mlp_norm.empty());
}

TEST(Families, the_norms_of_the_heads_of_q_and_k_have_weights_of_their_own) {
  const auto norms_of = [](std::string_view architecture, std::string_view key) {
    std::vector<std::string> names;
    for (const ExpectedTensor& tensor :
         expected_tensors(load_text(complete(architecture, key, true).dump()).config)) {
      const bool is_of_first = tensor.name.starts_with("model.layers.0.self_attn.");
      if (is_of_first && tensor.role == WeightRole::norm) names.push_back(tensor.name);
    }
    return names;
  };
  EXPECT_THAT(norms_of("CohereForCausalLM", "use_qk_norm"),
              ElementsAre("model.layers.0.self_attn.q_norm.weight",
                          "model.layers.0.self_attn.k_norm.weight"));
  EXPECT_THAT(norms_of("StableLmForCausalLM", "qk_layernorm"),
              ElementsAre("model.layers.0.self_attn.q_layernorm.norms.0.weight",
                          "model.layers.0.self_attn.q_layernorm.norms.1.weight",
                          "model.layers.0.self_attn.q_layernorm.norms.2.weight",
                          "model.layers.0.self_attn.q_layernorm.norms.3.weight",
                          "model.layers.0.self_attn.k_layernorm.norms.0.weight",
                          "model.layers.0.self_attn.k_layernorm.norms.1.weight"));
}

TEST(Families, a_model_with_alibi_does_not_rotate) {
  const ModelConfig config = load_text(complete("FalconForCausalLM", "alibi", true).dump()).config;
  EXPECT_TRUE(config.has_alibi);
  EXPECT_EQ(config.rope.type, RopeType::none);
}

TEST(Families, the_weights_of_experts_are_divided_by_their_sum_unless_the_config_says_no) {
  const auto renormalises = [](std::string_view architecture, Json value) {
    Json config = complete(architecture, "norm_topk_prob", std::move(value));
    return load_text(config.dump()).config.moe->renormalises;
  };
  for (const char* name : {"DeepseekV3ForCausalLM", "Glm4MoeForCausalLM", "SolarOpenForCausalLM"}) {
    EXPECT_TRUE(renormalises(name, nullptr)) << name;
    EXPECT_FALSE(renormalises(name, false)) << name;
  }
  EXPECT_FALSE(renormalises("Dots1ForCausalLM", nullptr)) << "as in its class";
  EXPECT_TRUE(renormalises("Dots1ForCausalLM", true));
}

TEST(Families, odd_numbers_of_rotated_elements_are_rounded_up_where_the_class_does_so) {
  const auto rope = [](std::string_view architecture, double factor) {
    Json config = complete(architecture, "partial_rotary_factor", factor);
    config["head_dim"] = 16;
    return load_text(config.dump()).config.rope;
  };
  EXPECT_EQ(rope("Qwen3_5ForCausalLM", 0.35).rotary_dim, 6);
  EXPECT_EQ(rope("Qwen3_5ForCausalLM", 0.35).frequency_dim, 5);
  EXPECT_EQ(rope("Qwen3_5ForCausalLM", 0.95).rotary_dim, 0) << "all 16";
  EXPECT_EQ(rope("Qwen3_5ForCausalLM", 0.95).frequency_dim, 15);
  EXPECT_EQ(rope("Qwen3_5ForCausalLM", 0.5).frequency_dim, 0);
  Json yarn = complete("Qwen3_5ForCausalLM", "head_dim", 16);
  yarn["rope_parameters"] = {
      {"rope_type", "yarn"}, {"factor", 2.0}, {"partial_rotary_factor", 0.35}};
  EXPECT_EQ(family_refusal(yarn), "E_CONFIG rope_parameters.rope_type");
}

// The sizes that the config classes of transformers 5.19 and their attention have without the
// member; 0: the class divides hidden_size by the number of heads.
TEST(Families, heads_have_the_default_size_of_their_class) {
  const std::vector<std::pair<const char*, int64_t>> classes = {
      {"LlamaForCausalLM", 0},       {"MistralForCausalLM", 0},    {"Ministral3ForCausalLM", 128},
      {"Qwen2ForCausalLM", 0},       {"Qwen3ForCausalLM", 128},    {"Phi3ForCausalLM", 0},
      {"SeedOssForCausalLM", 128},   {"Ernie4_5ForCausalLM", 128}, {"Ernie4_5_MoeForCausalLM", 0},
      {"Exaone4ForCausalLM", 0},     {"GemmaForCausalLM", 256},    {"Gemma2ForCausalLM", 256},
      {"Gemma3ForCausalLM", 256},    {"GlmForCausalLM", 128},      {"Glm4ForCausalLM", 128},
      {"Cohere2ForCausalLM", 0},     {"GptOssForCausalLM", 64},    {"Glm4MoeForCausalLM", 0},
      {"SolarOpenForCausalLM", 128}, {"Dots1ForCausalLM", 0},      {"MiniMaxM2ForCausalLM", 128},
      {"MixtralForCausalLM", 0},     {"Qwen2MoeForCausalLM", 0},   {"Qwen3MoeForCausalLM", 0},
      {"Qwen3NextForCausalLM", 256}, {"Qwen3_5ForCausalLM", 256}};
  for (const auto& [name, size] : classes) {
    Json config = complete(name, "hidden_size", 96);
    config.erase("head_dim");
    EXPECT_EQ(load_text(config.dump()).config.head_dim, size == 0 ? 96 / 4 : size) << name;
  }
}

TEST(Families, reads_partial_rotation_in_both_spellings) {
  EXPECT_EQ(load_text(complete("GPTNeoXForCausalLM").dump()).config.rope.rotary_dim, 4);
  const Json old_style = complete("GPTNeoXForCausalLM", "rotary_pct", 0.5);
  EXPECT_EQ(load_text(old_style.dump()).config.rope.rotary_dim, 8);
  const Json new_style =
      complete("GPTNeoXForCausalLM", "rope_parameters", {{"partial_rotary_factor", 0.5}});
  EXPECT_EQ(load_text(new_style.dump()).config.rope.rotary_dim, 8);
  const ModelConfig glm = load_text(complete("Glm4ForCausalLM").dump()).config;
  EXPECT_EQ(glm.rope.rotary_dim, 64);
  EXPECT_TRUE(glm.rope.is_interleaved);
}

TEST(Families, reads_the_three_forms_of_falcon) {
  const ModelConfig one = load_text(complete("FalconForCausalLM").dump()).config;
  EXPECT_EQ(one.num_key_value_heads, 1);
  EXPECT_TRUE(one.has_parallel_residual && !one.has_parallel_norms);
  Json json = complete("FalconForCausalLM", "multi_query", false);
  json["parallel_attn"] = false;
  const ModelConfig rw = load_text(json.dump()).config;
  EXPECT_EQ(rw.qkv_layout, QkvLayout::per_head);
  EXPECT_EQ(rw.num_key_value_heads, 4);
  EXPECT_FALSE(rw.has_parallel_residual);
  json = complete("FalconForCausalLM", "new_decoder_architecture", true);
  json["num_kv_heads"] = 2;
  const ModelConfig big = load_text(json.dump()).config;
  EXPECT_EQ(big.qkv_layout, QkvLayout::per_group);
  EXPECT_TRUE(big.has_parallel_norms);
}

TEST(Families, reads_which_layers_have_experts) {
  Json json = complete("Qwen2MoeForCausalLM", "decoder_sparse_step", 2);
  json["mlp_only_layers"] = {3};
  const ModelConfig config = load_text(json.dump()).config;
  EXPECT_THAT(config.moe_layers, ElementsAre(false, true, false, false));
  EXPECT_EQ(config.moe->shared_intermediate_size, 48);
  EXPECT_FALSE(config.moe->renormalises);
  EXPECT_TRUE(load_text(complete("MixtralForCausalLM").dump()).config.moe->renormalises);
}

// Some members of the published config.json.
constexpr const char* kKimiK2 = R"({"architectures": ["DeepseekV3ForCausalLM"],
  "model_type": "kimi_k2", "hidden_size": 7168, "intermediate_size": 18432, "num_hidden_layers": 61,
  "num_attention_heads": 64, "num_key_value_heads": 64, "q_lora_rank": 1536, "kv_lora_rank": 512,
  "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "n_routed_experts": 384,
  "num_experts_per_tok": 8, "n_group": 1, "topk_group": 1, "n_shared_experts": 1,
  "moe_intermediate_size": 2048, "moe_layer_freq": 1, "first_k_dense_replace": 1,
  "norm_topk_prob": true, "routed_scaling_factor": 2.827, "scoring_func": "sigmoid",
  "topk_method": "noaux_tc", "rms_norm_eps": 1e-06, "rope_theta": 50000.0,
  "rope_scaling": {"type": "yarn", "factor": 32.0, "beta_fast": 1.0, "beta_slow": 1.0,
    "mscale": 1.0, "mscale_all_dim": 1.0, "original_max_position_embeddings": 4096},
  "max_position_embeddings": 131072, "vocab_size": 163840, "tie_word_embeddings": false})";

TEST(Families, reads_the_layers_of_llama_4) {
  ModelConfig config = load_text(complete("Llama4ForCausalLM").dump()).config;
  using enum LayerType;
  EXPECT_THAT(config.layer_types,
              ElementsAre(chunked_attention, chunked_attention, chunked_attention, full_attention));
  EXPECT_EQ(config.chunk_of_layer(2), 8192);
  EXPECT_EQ(config.chunk_of_layer(3), std::nullopt);
  EXPECT_FALSE(config.rotates(3));
  EXPECT_EQ(config.intermediate_size, 128);
  EXPECT_EQ(config.moe->shared_intermediate_size, 128);
  EXPECT_EQ(config.attention_temperature->floor_positions, 8192);
  Json maverick = complete("Llama4ForCausalLM", "interleave_moe_layer_step", 2);
  maverick["attention_chunk_size"] = nullptr;
  maverick["attn_temperature_tuning"] = 0;
  maverick["use_qk_norm"] = false;
  config = load_text(maverick.dump()).config;
  EXPECT_THAT(config.moe_layers, ElementsAre(false, true, false, true));
  EXPECT_EQ(config.layer_types[0], full_attention);
  EXPECT_FALSE(config.attention_temperature || config.has_unit_qk_norm);
}

TEST(Families, reads_kimi_k2) {
  const ModelConfig config = load_text(kKimiK2).config;
  ASSERT_TRUE(config.mla && config.moe);
  EXPECT_EQ(config.mla->cache_row_size(), 576);
  EXPECT_EQ(config.mla->qk_head_dim(), 192);
  EXPECT_EQ(config.moe->num_experts, 384);
  EXPECT_EQ(config.moe->scores, RouterScores::sigmoid_with_bias);
  EXPECT_DOUBLE_EQ(config.moe->routed_scale, 2.827);
  EXPECT_FALSE(config.is_moe_layer(0));
  EXPECT_TRUE(config.is_moe_layer(60));
  EXPECT_TRUE(config.rope.is_interleaved);
  const double magnitude = 0.1 * std::log(32.0) + 1;
  EXPECT_DOUBLE_EQ(config.rope.attention_factor, 1.0) << "mscale and mscale_all_dim are equal";
  EXPECT_DOUBLE_EQ(*config.attention_scale, magnitude * magnitude / std::sqrt(192.0));
  // 1.03 trillion parameters, as published.
  EXPECT_NEAR(static_cast<double>(num_parameters(config)), 1.03e12, 0.01e12);
}

TEST(Families, reads_the_routing_of_deepseek_v2) {
  Json json = complete("DeepseekV2ForCausalLM", "n_group", 4);
  json["topk_group"] = 2;
  EXPECT_EQ(load_text(json.dump()).config.moe->groups, 1) << "greedy ignores the groups";
  json["topk_method"] = "group_limited_greedy";
  json["n_shared_experts"] = 2;
  const MixtureOfExperts moe = *load_text(json.dump()).config.moe;
  EXPECT_EQ(moe.groups, 4);
  EXPECT_EQ(moe.top_groups, 2);
  EXPECT_EQ(moe.shared_intermediate_size, 64);
  EXPECT_FALSE(moe.has_shared_gate);
  json["q_lora_rank"] = nullptr;
  EXPECT_EQ(load_text(json.dump()).config.mla->q_lora_rank, 0);
}

TEST(Families, reads_falcon_h1_whose_layers_have_attention_and_a_recurrence) {
  Json json = complete("FalconH1ForCausalLM", "mamba_d_ssm", 96);
  json["key_multiplier"] = 0.5;
  json["mlp_multipliers"] = {0.8, 1.2};
  json["ssm_multipliers"] = {2, 3, 4, 5, 6};
  const ModelConfig falcon = load_text(json.dump()).config;
  EXPECT_EQ(falcon.num_attention_layers(), 4);
  EXPECT_EQ(falcon.num_recurrent_layers(), 4);
  EXPECT_EQ(falcon.cache_index(3), 3);
  EXPECT_EQ(falcon.recurrent->head_dim, 12);
  EXPECT_FALSE(falcon.recurrent->has_norm);
  EXPECT_DOUBLE_EQ(*falcon.attention_scale, 0.5 / 4) << "heads of 16";
  EXPECT_DOUBLE_EQ(falcon.multipliers.mlp_out, 1.2);
  EXPECT_DOUBLE_EQ(falcon.multipliers.c, 5);
  json["mamba_d_ssm"] = nullptr;
  EXPECT_EQ(load_text(json.dump()).config.recurrent->value_size(), 128) << "expand * hidden size";
}

TEST(Families, reads_which_layers_are_recurrent) {
  const ModelConfig mamba = load_text(complete("Mamba2ForCausalLM").dump()).config;
  EXPECT_EQ(mamba.num_recurrent_layers(), 4);
  EXPECT_EQ(mamba.recurrent->head_dim, 16);
  EXPECT_EQ(mamba.recurrent->conv_size(), 128 + 2 * 2 * 16);
  const ModelConfig bamba =
      load_text(complete("BambaForCausalLM", "attn_layer_indices", {1, 3}).dump()).config;
  EXPECT_EQ(bamba.num_attention_layers(), 2);
  EXPECT_TRUE(bamba.is_recurrent_layer(2));
  EXPECT_EQ(bamba.cache_index(3), 1);  // the second one with keys and values
  EXPECT_EQ(bamba.cache_index(2), 1);  // the second one with states
  const ModelConfig granite = load_text(complete("GraniteMoeHybridForCausalLM",
                                                 "layers_block_type",
                                                 {"mamba", "attention", "mamba", "mamba"})
                                            .dump())
                                  .config;
  EXPECT_EQ(granite.num_attention_layers(), 1);
  EXPECT_EQ(granite.intermediate_size, 96);
  EXPECT_EQ(granite.rope.type, RopeType::none);
  const ModelConfig qwen = load_text(complete("Qwen3NextForCausalLM").dump()).config;
  EXPECT_EQ(qwen.num_attention_layers(), 1);
  EXPECT_FALSE(qwen.is_recurrent_layer(3));
}

TEST(Families, reads_the_multipliers_of_minicpm) {
  Json json = complete("MiniCPMForCausalLM", "scale_emb", 12);
  json["scale_depth"] = 1.4;
  json["dim_model_base"] = 32;
  const ModelConfig config = load_text(json.dump()).config;
  EXPECT_EQ(config.embedding_scale, 12);
  EXPECT_DOUBLE_EQ(config.residual_scale, 0.7);
  EXPECT_DOUBLE_EQ(config.logits_scale, 0.5);
}

TEST(Families, positions_of_roberta_begin_behind_the_padding) {
  const ModelConfig config =
      load_text(complete("XLMRobertaModel", "max_position_embeddings", 130).dump()).config;
  EXPECT_EQ(config.learned_position_offset, 2);
  EXPECT_EQ(config.max_position_embeddings, 128);
  const ModelConfig other = load_text(complete("RobertaModel", "pad_token_id", 5).dump()).config;
  EXPECT_EQ(other.learned_position_offset, 6);
  EXPECT_EQ(other.max_position_embeddings, 250);
}

TEST(Families, only_bert_tells_two_texts_apart) {
  for (const auto& [architecture, offset] : {std::pair{"BertForSequenceClassification", 256},
                                             {"XLMRobertaForSequenceClassification", 0}}) {
    EXPECT_EQ(load_text(complete(architecture).dump()).config.second_text_offset(), offset);
  }
}

TEST(Families, bart_has_two_parts_of_sizes_of_their_own) {
  const ModelConfig config =
      load_text(complete("BartForConditionalGeneration", "forced_bos_token_id", 0).dump()).config;
  ASSERT_TRUE(config.encoder);
  EXPECT_THAT(config.encoder->decoder_prompt, ElementsAre(2, 0));
  EXPECT_EQ(config.num_hidden_layers, 3);
  EXPECT_EQ(config.intermediate_size, 128);
  EXPECT_FALSE(config.is_encoder);
  const ModelConfig encoder = config_of_encoder(config);
  EXPECT_TRUE(encoder.is_encoder);
  EXPECT_EQ(encoder.num_hidden_layers, 2);
  EXPECT_EQ(encoder.intermediate_size, 96);
  EXPECT_EQ(encoder_tensors(config).in_layer(1, "fc1"), "model.encoder.layers.1.fc1");
}

}  // namespace
}  // namespace reprise::weights
