#pragma once

#include <string_view>

#include "reprise/base/json.h"

namespace reprise::weights {

/// Changes members that have another meaning in this family, or that the family refuses.
inline void fit_to_family(Json& config, std::string_view architecture) {
  if (architecture == "GraniteMoeHybridForCausalLM") config["num_local_experts"] = 0;
  // In this family the member is the number of a layer's values.
  if (architecture == "MambaForCausalLM") config.erase("intermediate_size");
  if (architecture == "MixtralForCausalLM" || architecture == "GraniteMoeForCausalLM") {
    config["num_local_experts"] = 4;
  }
  if (architecture == "MiniMaxM2ForCausalLM") {
    config["num_local_experts"] = 4;
    config.erase("shared_intermediate_size");
  }
  if (architecture == "Gemma4ForCausalLM") config["vocab_size_per_layer_input"] = 100;
  if (architecture == "KimiLinearForCausalLM") config["num_experts_per_token"] = 2;
  if (architecture == "MiMoV2FlashForCausalLM") config["num_key_value_heads"] = 2;
  if (architecture == "NemotronHForCausalLM") {
    config["hybrid_override_pattern"] = "M*-E";
    config["moe_shared_expert_intermediate_size"] = 48;
  }
  if (architecture == "Dots1ForCausalLM") config["norm_topk_prob"] = true;
  if (architecture == "Ernie4_5_MoeForCausalLM") config["moe_num_experts"] = 8;
  if (architecture == "HunYuanMoEV1ForCausalLM") config.erase("moe_intermediate_size");
  if (architecture == "Llama4ForCausalLM") {
    config["num_local_experts"] = 4;
    config["num_experts_per_tok"] = 1;
    config["intermediate_size_mlp"] = 128;
  }
}

/// A small config with all members that any family needs.
inline Json complete_config(std::string_view architecture) {
  Json config = {{"architectures", {architecture}},
                 {"vocab_size", 100},
                 {"hidden_size", 64},
                 {"intermediate_size", 128},
                 {"ffn_dim", 128},
                 {"num_hidden_layers", 4},
                 {"num_attention_heads", 4},
                 {"num_key_value_heads", 2},
                 {"max_position_embeddings", 256},
                 {"n_embd", 64},
                 {"n_layer", 4},
                 {"n_head", 4},
                 {"n_positions", 256},
                 {"num_experts", 4},
                 {"num_experts_per_tok", 2},
                 {"moe_intermediate_size", 32},
                 {"shared_expert_intermediate_size", 48},
                 {"n_routed_experts", 8},
                 {"kv_lora_rank", 32},
                 {"q_lora_rank", 24},
                 {"qk_nope_head_dim", 16},
                 {"qk_rope_head_dim", 8},
                 {"v_head_dim", 12},
                 {"num_heads", 8},
                 {"state_size", 16},
                 {"n_groups", 2},
                 {"conv_kernel", 4},
                 {"mamba_n_heads", 8},
                 {"mamba_d_state", 16},
                 {"mamba_n_groups", 2},
                 {"mamba_d_conv", 4},
                 {"shared_intermediate_size", 96},
                 {"linear_num_value_heads", 4},
                 {"linear_num_key_heads", 2},
                 {"linear_value_head_dim", 16},
                 {"linear_key_head_dim", 8},
                 {"linear_conv_kernel_dim", 4},
                 {"conv_L_cache", 3},
                 {"d_model", 64},
                 {"encoder_layers", 2},
                 {"decoder_layers", 3},
                 {"encoder_attention_heads", 4},
                 {"decoder_attention_heads", 4},
                 {"encoder_ffn_dim", 96},
                 {"decoder_ffn_dim", 128},
                 {"decoder_start_token_id", 2},
                 {"dim", 64},
                 {"hidden_dim", 128},
                 {"n_layers", 4},
                 {"n_heads", 4}};
  fit_to_family(config, architecture);
  return config;
}

}  // namespace reprise::weights
