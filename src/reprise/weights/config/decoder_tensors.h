#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "reprise/weights/config/model_config.h"

namespace reprise::weights {

/// A tensor of BART that published checkpoints fill with zeros.
inline constexpr std::string_view kFinalLogitsBias = "final_logits_bias";

/// The names of a decoder's tensors in the checkpoints of a family: names of modules, without
/// ".weight" and ".bias". An empty name means that the family has no such tensor. The defaults are
/// Llama's.
struct DecoderTensors {
  std::string_view embedding = "model.embed_tokens";
  std::string_view position_embedding = {};
  std::string_view token_type_embedding = {};
  // From the size of the embedding to that of the layers.
  std::string_view embedding_projection = {};
  std::string_view hidden_projection = {};  // back to the size of the embedding, before lm_head
  std::string_view embedding_norm = {};     // of the sum of all embeddings
  // The embedding of each layer: a table and a projection of the first hidden states, both for all
  // layers side by side, and the norm of the projection's result for a layer.
  std::string_view layer_embedding = {};
  std::string_view layer_embedding_projection = {};
  std::string_view layer_embedding_norm = {};
  std::string_view layers = "model.layers.";  // before the number of the layer
  std::string_view final_norm = "model.norm";
  std::string_view lm_head = "lm_head";
  std::string_view pooler = {};       // for an encoder: a projection before the classifier
  std::string_view pooler_norm = {};  // after it
  std::string_view classifier = "score";

  // Names in a layer, after "model.layers.3.".
  std::string_view attention_norm = "input_layernorm";     // before attention
  std::string_view attention_result_norm = {};             // of what attention adds
  std::string_view mlp_norm = "post_attention_layernorm";  // before the MLP
  std::string_view mlp_result_norm = {};                   // of what the MLP adds
  std::string_view q = "self_attn.q_proj";
  std::string_view k = "self_attn.k_proj";
  std::string_view v = "self_attn.v_proj";
  std::string_view qkv = {};  // instead of q, k and v
  std::string_view o = "self_attn.o_proj";
  std::string_view q_norm = "self_attn.q_norm";
  std::string_view k_norm = "self_attn.k_norm";
  /// QkNorm::own_per_head with a tensor for each head: the head's number comes after these names.
  /// false: one tensor of [heads, head_dim].
  bool has_norm_of_each_head = false;
  std::string_view gate = "mlp.gate_proj";
  std::string_view up = "mlp.up_proj";
  std::string_view gate_up = {};  // instead of gate and up
  std::string_view down = "mlp.down_proj";
  // Tensors with which a layer reads its own embedding.
  std::string_view layer_input_gate = {};
  std::string_view layer_input_projection = {};
  std::string_view layer_input_norm = {};
  std::string_view layer_scalar = {};  // a tensor, not a module

  // Attention to the hidden states of an encoder; empty: there is none.
  std::string_view cross_q = {};
  std::string_view cross_k = {};
  std::string_view cross_v = {};
  std::string_view cross_o = {};
  std::string_view cross_result_norm = {};

  // Names in a layer with latent attention.
  std::string_view q_a = "self_attn.q_a_proj";
  std::string_view q_a_norm = "self_attn.q_a_layernorm";
  std::string_view q_b = "self_attn.q_b_proj";
  std::string_view kv_a = "self_attn.kv_a_proj_with_mqa";
  std::string_view kv_a_norm = "self_attn.kv_a_layernorm";
  std::string_view kv_b = "self_attn.kv_b_proj";
  // Names in the index of positions.
  std::string_view index_q_b = "self_attn.indexer.wq_b";
  std::string_view index_k = "self_attn.indexer.wk";
  std::string_view index_k_norm = "self_attn.indexer.k_norm";  // LayerNorm, in every class
  std::string_view index_weights = "self_attn.indexer.weights_proj";

  std::string_view sinks = "self_attn.sinks";  // a tensor, not a module
  std::string_view head_gates = "self_attn.g_proj";

  // Names in a recurrent layer, after "mixer." or the family's own name for it.
  std::string_view mixer = "mamba.";
  std::string_view mixer_in = "in_proj";
  std::string_view mixer_conv = "conv1d";
  std::string_view mixer_gates = {};  // for a gated delta net: beta and time step of each head
  // A gated delta net may instead have separate projections: mixer_in for q, k and v, and these.
  std::string_view mixer_z = {};  // the gate of the result
  std::string_view mixer_beta = {};
  std::string_view mixer_dt = {};
  std::string_view mixer_out = "out_proj";

  // Names in a layer with experts.
  std::string_view router = "mlp.gate";
  std::string_view router_bias = "mlp.gate.e_score_correction_bias";  // a tensor, not a module
  bool router_bias_is_row = false;                                    // [1, experts]
  // Tensors of Gemma 4: the weight of the router's norm, and a factor of each expert.
  std::string_view router_scale = {};
  std::string_view expert_scales = {};
  // Norms of a layer that has experts beside an MLP.
  std::string_view expert_norm = {};  // before the experts
  // Norm of the MLP's result, before both results are added.
  std::string_view plain_mlp_result_norm = {};
  // Norm of the experts' result, before both results are added.
  std::string_view expert_result_norm = {};
  // The projections before and after experts that have a latent size.
  std::string_view latent_in = {};
  std::string_view latent_out = {};
  std::string_view experts = "mlp.experts.";  // before the number of the expert
  std::string_view expert_gate = "gate_proj";
  std::string_view expert_up = "up_proj";
  std::string_view expert_down = "down_proj";
  std::string_view expert_gate_up = "gate_up_proj";  // of stacked experts: gate, then up
  // Names of tensors, not of modules: one tensor for all experts of a layer, in checkpoints that
  // store them like this.
  std::string_view stacked_gate_up = "mlp.experts.gate_up_proj";
  std::string_view stacked_gate = {};  // instead, with stacked_up
  std::string_view stacked_up = {};
  std::string_view stacked_down = "mlp.experts.down_proj";
  bool has_transposed_experts = false;  // these two are [experts, in, out]
  std::string_view shared_expert = "mlp.shared_expert.";
  std::string_view shared_gate_up = {};  // one module instead of gate and up
  // Modules of the expert that every token uses; empty: their names are those of the other experts.
  std::string_view shared_gate = {};
  std::string_view shared_up = {};
  std::string_view shared_down = {};
  std::string_view shared_expert_gate = "mlp.shared_expert_gate";

  /// Matrices of attention and MLP are stored [in, out].
  bool is_transposed = false;
  /// false: the first layer has no attention norm, and reads the embedding after the embedding's
  /// own norm.
  bool first_layer_has_attention_norm = true;

  /// A classifier has a bias if it is made from an encoder, and none if it is made from a decoder.
  [[nodiscard]] bool classifier_has_bias() const noexcept { return !pooler.empty(); }
  [[nodiscard]] bool has_attention_norm(int64_t layer) const noexcept {
    return !attention_norm.empty() && (layer > 0 || first_layer_has_attention_norm);
  }

  struct ExpertModules {
    std::string_view gate;
    std::string_view up;
    std::string_view down;
  };
  /// The names of modules in the expert that every token uses.
  [[nodiscard]] ExpertModules shared_modules() const noexcept {
    if (shared_gate.empty()) return {.gate = expert_gate, .up = expert_up, .down = expert_down};
    return {.gate = shared_gate, .up = shared_up, .down = shared_down};
  }
  [[nodiscard]] std::string in_layer(int64_t layer, std::string_view name) const;
  [[nodiscard]] std::string in_mixer(int64_t layer, std::string_view name) const;
  [[nodiscard]] std::string in_expert(int64_t layer, int64_t expert, std::string_view name) const;
};

[[nodiscard]] DecoderTensors decoder_tensors(const ModelConfig& config);
/// The tensors of config_of_encoder(). \pre config.encoder
[[nodiscard]] DecoderTensors encoder_tensors(const ModelConfig& config);

}  // namespace reprise::weights
