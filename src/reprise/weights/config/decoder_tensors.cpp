#include "reprise/weights/config/decoder_tensors.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

namespace reprise::weights {
namespace {

DecoderTensors gpt2(const ModelConfig& config) {
  return {.embedding = "transformer.wte",
          .position_embedding = "transformer.wpe",
          .layers = "transformer.h.",
          .final_norm = "transformer.ln_f",
          .attention_norm = "ln_1",
          .mlp_norm = "ln_2",
          .qkv = "attn.c_attn",
          .o = "attn.c_proj",
          .up = "mlp.c_fc",
          .down = "mlp.c_proj",
          .is_transposed = config.has_transposed_matrices};
}

DecoderTensors opt(const ModelConfig& config) {
  DecoderTensors names = {.embedding = "model.decoder.embed_tokens",
                          .position_embedding = "model.decoder.embed_positions",
                          .layers = "model.decoder.layers.",
                          .final_norm = "model.decoder.final_layer_norm",
                          .attention_norm = "self_attn_layer_norm",
                          .mlp_norm = "final_layer_norm",
                          .o = "self_attn.out_proj",
                          .up = "fc1",
                          .down = "fc2"};
  if (config.embedding_size > 0) {
    names.embedding_projection = "model.decoder.project_in";
    names.hidden_projection = "model.decoder.project_out";
  }
  if (config.has_post_norms) {
    names.final_norm = {};
    names.attention_result_norm = std::exchange(names.attention_norm, {});
    names.mlp_result_norm = std::exchange(names.mlp_norm, {});
  }
  return names;
}

DecoderTensors gpt_neox() {
  return {.embedding = "gpt_neox.embed_in",
          .layers = "gpt_neox.layers.",
          .final_norm = "gpt_neox.final_layer_norm",
          .lm_head = "embed_out",
          .qkv = "attention.query_key_value",
          .o = "attention.dense",
          .up = "mlp.dense_h_to_4h",
          .down = "mlp.dense_4h_to_h"};
}

// The names in a classifier begin with a part that the names in the plain class do not have.
DecoderTensors bert(const ModelConfig& config) {
  DecoderTensors names = {.embedding = "embeddings.word_embeddings",
                          .position_embedding = "embeddings.position_embeddings",
                          .token_type_embedding = "embeddings.token_type_embeddings",
                          .embedding_norm = "embeddings.LayerNorm",
                          .layers = "encoder.layer.",
                          .final_norm = {},
                          .lm_head = {},
                          .pooler = "pooler.dense",
                          .classifier = "classifier",
                          .attention_norm = {},
                          .attention_result_norm = "attention.output.LayerNorm",
                          .mlp_norm = {},
                          .mlp_result_norm = "output.LayerNorm",
                          .q = "attention.self.query",
                          .k = "attention.self.key",
                          .v = "attention.self.value",
                          .o = "attention.output.dense",
                          .up = "intermediate.dense",
                          .down = "output.dense"};
  if (!config.classifier) return names;
  names.embedding = "bert.embeddings.word_embeddings";
  names.position_embedding = "bert.embeddings.position_embeddings";
  names.token_type_embedding = "bert.embeddings.token_type_embeddings";
  names.embedding_norm = "bert.embeddings.LayerNorm";
  names.layers = "bert.encoder.layer.";
  names.pooler = "bert.pooler.dense";
  return names;
}

DecoderTensors roberta(const ModelConfig& config) {
  DecoderTensors names = bert(config);
  if (!config.classifier) return names;
  names.embedding = "roberta.embeddings.word_embeddings";
  names.position_embedding = "roberta.embeddings.position_embeddings";
  names.token_type_embedding = "roberta.embeddings.token_type_embeddings";
  names.embedding_norm = "roberta.embeddings.LayerNorm";
  names.layers = "roberta.encoder.layer.";
  names.pooler = "classifier.dense";
  names.classifier = "classifier.out_proj";
  return names;
}

DecoderTensors xlm_roberta_xl(const ModelConfig& config) {
  DecoderTensors names = roberta(config);
  names.embedding_norm = {};
  names.final_norm = config.classifier ? "roberta.encoder.LayerNorm" : "encoder.LayerNorm";
  names.attention_norm = "attention.self_attn_layer_norm";
  names.attention_result_norm = {};
  names.mlp_norm = "LayerNorm";
  names.mlp_result_norm = {};
  return names;
}

DecoderTensors distilbert(const ModelConfig& config) {
  DecoderTensors names = {.embedding = "embeddings.word_embeddings",
                          .position_embedding = "embeddings.position_embeddings",
                          .embedding_norm = "embeddings.LayerNorm",
                          .layers = "transformer.layer.",
                          .final_norm = {},
                          .lm_head = {},
                          .classifier = "classifier",
                          .attention_norm = {},
                          .attention_result_norm = "sa_layer_norm",
                          .mlp_norm = {},
                          .mlp_result_norm = "output_layer_norm",
                          .q = "attention.q_lin",
                          .k = "attention.k_lin",
                          .v = "attention.v_lin",
                          .o = "attention.out_lin",
                          .up = "ffn.lin1",
                          .down = "ffn.lin2"};
  if (!config.classifier) return names;
  names.embedding = "distilbert.embeddings.word_embeddings";
  names.position_embedding = "distilbert.embeddings.position_embeddings";
  names.embedding_norm = "distilbert.embeddings.LayerNorm";
  names.layers = "distilbert.transformer.layer.";
  names.pooler = "pre_classifier";
  return names;
}

DecoderTensors modernbert(const ModelConfig& config) {
  DecoderTensors names = {.embedding = "embeddings.tok_embeddings",
                          .embedding_norm = "embeddings.norm",
                          .layers = "layers.",
                          .final_norm = "final_norm",
                          .lm_head = {},
                          .classifier = "classifier",
                          .attention_norm = "attn_norm",
                          .mlp_norm = "mlp_norm",
                          .qkv = "attn.Wqkv",
                          .o = "attn.Wo",
                          .gate_up = "mlp.Wi",
                          .down = "mlp.Wo",
                          .first_layer_has_attention_norm = false};
  if (!config.classifier) return names;
  names.embedding = "model.embeddings.tok_embeddings";
  names.embedding_norm = "model.embeddings.norm";
  names.layers = "model.layers.";
  names.final_norm = "model.final_norm";
  names.pooler = "head.dense";
  names.pooler_norm = "head.norm";
  return names;
}

// Checkpoints use the names of the original code of Nomic's models, also those that Transformers
// writes.
DecoderTensors nomic_bert() {
  return {.embedding = "embeddings.word_embeddings",
          .token_type_embedding = "embeddings.token_type_embeddings",
          .embedding_norm = "emb_ln",
          .layers = "encoder.layers.",
          .final_norm = {},
          .lm_head = {},
          .attention_norm = {},
          .attention_result_norm = "norm1",
          .mlp_norm = {},
          .mlp_result_norm = "norm2",
          .qkv = "attn.Wqkv",
          .o = "attn.out_proj",
          .gate = "mlp.fc12",
          .up = "mlp.fc11",
          .down = "mlp.fc2"};
}

std::optional<DecoderTensors> tensors_of_encoder(const ModelConfig& config) {
  switch (config.architecture) {
    case Architecture::bert:
      return bert(config);
    case Architecture::roberta:
    case Architecture::xlm_roberta:
    case Architecture::camembert:
      return roberta(config);
    case Architecture::xlm_roberta_xl:
      return xlm_roberta_xl(config);
    case Architecture::distilbert:
      return distilbert(config);
    case Architecture::modernbert:
      return modernbert(config);
    case Architecture::nomic_bert:
      return nomic_bert();
    default:
      return std::nullopt;
  }
}

DecoderTensors olmo2() {
  return {.attention_norm = {},
          .attention_result_norm = "post_attention_layernorm",
          .mlp_norm = {},
          .mlp_result_norm = "post_feedforward_layernorm"};
}

DecoderTensors bart() {
  return {.embedding = "model.shared",
          .position_embedding = "model.decoder.embed_positions",
          .embedding_norm = "model.decoder.layernorm_embedding",
          .layers = "model.decoder.layers.",
          .final_norm = {},
          .attention_norm = {},
          .attention_result_norm = "self_attn_layer_norm",
          .mlp_norm = {},
          .mlp_result_norm = "final_layer_norm",
          .o = "self_attn.out_proj",
          .up = "fc1",
          .down = "fc2",
          .cross_q = "encoder_attn.q_proj",
          .cross_k = "encoder_attn.k_proj",
          .cross_v = "encoder_attn.v_proj",
          .cross_o = "encoder_attn.out_proj",
          .cross_result_norm = "encoder_attn_layer_norm"};
}

DecoderTensors mamba() {
  return {.embedding = "backbone.embeddings",
          .layers = "backbone.layers.",
          .final_norm = "backbone.norm_f",
          .attention_norm = "norm",
          .mixer = "mixer."};
}

DecoderTensors nemotron_h() {
  DecoderTensors names = mamba();
  names.mlp_norm = names.attention_norm;
  names.q = "mixer.q_proj";
  names.k = "mixer.k_proj";
  names.v = "mixer.v_proj";
  names.o = "mixer.o_proj";
  names.up = "mixer.up_proj";
  names.down = "mixer.down_proj";
  names.router = "mixer.gate";
  names.router_bias = "mixer.gate.e_score_correction_bias";
  names.experts = "mixer.experts.";
  names.stacked_gate_up = "mixer.experts.up_proj";
  names.stacked_down = "mixer.experts.down_proj";
  names.shared_expert = "mixer.shared_experts.";
  names.latent_in = "mixer.fc1_latent_proj";
  names.latent_out = "mixer.fc2_latent_proj";
  return names;
}

DecoderTensors bamba() {
  return {.final_norm = "model.final_layernorm",
          .mlp_norm = "pre_ff_layernorm",
          .gate = "feed_forward.gate_proj",
          .up = "feed_forward.up_proj",
          .down = "feed_forward.down_proj"};
}

// A model without experts only has the MLP whose name says "shared".
DecoderTensors granite_moe() {
  return {.gate_up = "shared_mlp.input_linear",
          .down = "shared_mlp.output_linear",
          .router = "block_sparse_moe.router.layer",
          .experts = "block_sparse_moe.experts.",
          .expert_down = "output_linear",
          .stacked_gate_up = "block_sparse_moe.input_linear.weight",
          .stacked_down = "block_sparse_moe.output_linear.weight",
          .shared_expert = "shared_mlp.",
          .shared_gate_up = "input_linear"};
}

DecoderTensors lfm2() {
  return {.final_norm = "model.embedding_norm",
          .attention_norm = "operator_norm",
          .mlp_norm = "ffn_norm",
          .o = "self_attn.out_proj",
          .q_norm = "self_attn.q_layernorm",
          .k_norm = "self_attn.k_layernorm",
          .gate = "feed_forward.w1",
          .up = "feed_forward.w3",
          .down = "feed_forward.w2",
          .mixer = "conv.",
          .mixer_conv = "conv"};
}

DecoderTensors lfm2_moe() {
  DecoderTensors names = lfm2();
  names.router = "feed_forward.gate";
  names.router_bias = "feed_forward.expert_bias";
  names.experts = "feed_forward.experts.";
  names.expert_gate = "w1";
  names.expert_up = "w3";
  names.expert_down = "w2";
  return names;
}

DecoderTensors hunyuan() {
  return {.q_norm = "self_attn.query_layernorm",
          .k_norm = "self_attn.key_layernorm",
          .router = "mlp.gate.wg",
          .shared_expert = "mlp.shared_mlp."};
}

DecoderTensors ernie4_5_moe() {
  return {.router_bias = "mlp.moe_statics.e_score_correction_bias",
          .router_bias_is_row = true,
          .shared_expert = "mlp.shared_experts."};
}

DecoderTensors qwen3_next() {
  return {.mixer = "linear_attn.", .mixer_in = "in_proj_qkvz", .mixer_gates = "in_proj_ba"};
}

DecoderTensors qwen3_5() {
  return {.mixer = "linear_attn.",
          .mixer_in = "in_proj_qkv",
          .mixer_z = "in_proj_z",
          .mixer_beta = "in_proj_b",
          .mixer_dt = "in_proj_a"};
}

DecoderTensors mixtral() {
  return {.router = "block_sparse_moe.gate",
          .router_bias = "block_sparse_moe.e_score_correction_bias",
          .experts = "block_sparse_moe.experts.",
          .expert_gate = "w1",
          .expert_up = "w3",
          .expert_down = "w2"};
}

DecoderTensors kimi_linear() {
  DecoderTensors names = mixtral();
  names.mixer = "self_attn.";
  names.router_bias = "block_sparse_moe.gate.e_score_correction_bias";
  names.shared_expert = "block_sparse_moe.shared_experts.";
  names.shared_gate = "gate_proj";
  names.shared_up = "up_proj";
  names.shared_down = "down_proj";
  return names;
}

DecoderTensors step3p5() {
  return {.router = "moe.gate",
          .router_bias = "moe.router_bias",
          .experts = "moe.experts.",
          .stacked_gate = "moe.gate_proj.weight",
          .stacked_up = "moe.up_proj.weight",
          .stacked_down = "moe.down_proj.weight",
          .shared_expert = "share_expert."};
}

DecoderTensors llama4() {
  return {.gate = "feed_forward.gate_proj",
          .up = "feed_forward.up_proj",
          .down = "feed_forward.down_proj",
          .router = "feed_forward.router",
          .experts = "feed_forward.experts.",
          .stacked_gate_up = "feed_forward.experts.gate_up_proj",
          .stacked_down = "feed_forward.experts.down_proj",
          .has_transposed_experts = true,
          .shared_expert = "feed_forward.shared_expert."};
}

DecoderTensors glm4() {
  return {.attention_result_norm = "post_self_attn_layernorm",
          .mlp_result_norm = "post_mlp_layernorm",
          .gate_up = "mlp.gate_up_proj"};
}

DecoderTensors gemma() {
  return {.attention_result_norm = "post_attention_layernorm",
          .mlp_norm = "pre_feedforward_layernorm",
          .mlp_result_norm = "post_feedforward_layernorm"};
}

DecoderTensors gemma4() {
  DecoderTensors names = gemma();
  names.layer_embedding = "model.embed_tokens_per_layer";
  names.layer_embedding_projection = "model.per_layer_model_projection";
  names.layer_embedding_norm = "model.per_layer_projection_norm";
  names.layer_input_gate = "per_layer_input_gate";
  names.layer_input_projection = "per_layer_projection";
  names.layer_input_norm = "post_per_layer_input_norm";
  names.layer_scalar = "layer_scalar";
  names.router = "router.proj";
  names.router_scale = "router.scale";
  names.expert_scales = "router.per_expert_scale";
  names.expert_norm = "pre_feedforward_layernorm_2";
  names.plain_mlp_result_norm = "post_feedforward_layernorm_1";
  names.expert_result_norm = "post_feedforward_layernorm_2";
  names.experts = "experts.";
  names.stacked_gate_up = "experts.gate_up_proj";
  names.stacked_down = "experts.down_proj";
  return names;
}

DecoderTensors falcon(const ModelConfig& config) {
  DecoderTensors names = {.embedding = "transformer.word_embeddings",
                          .layers = "transformer.h.",
                          .final_norm = "transformer.ln_f",
                          .qkv = "self_attention.query_key_value",
                          .o = "self_attention.dense",
                          .up = "mlp.dense_h_to_4h",
                          .down = "mlp.dense_4h_to_h"};
  if (config.has_parallel_norms) {
    names.attention_norm = "ln_attn";
    names.mlp_norm = "ln_mlp";
  }
  return names;
}

// The names for families with experts and for Qwen3.5; Llama's names for all others.
DecoderTensors tensors_with_experts(const ModelConfig& config) {
  switch (config.architecture) {
    case Architecture::lfm2_moe:
      return lfm2_moe();
    case Architecture::granite_moe:
    case Architecture::granite_moe_hybrid:
      return granite_moe();
    case Architecture::ernie4_5_moe:
      return ernie4_5_moe();
    case Architecture::qwen3_next:
      return qwen3_next();
    case Architecture::qwen3_5:
    case Architecture::qwen3_5_moe:
      return qwen3_5();
    case Architecture::deepseek_v2:
    case Architecture::deepseek_v3:
    case Architecture::deepseek_v32:
    case Architecture::glm_moe_dsa:
    case Architecture::mistral4:
    case Architecture::glm4_moe:
    case Architecture::glm4_moe_lite:
    case Architecture::solar_open:
    case Architecture::dots1:
      return {.shared_expert = "mlp.shared_experts."};
    case Architecture::kimi_linear:
      return kimi_linear();
    case Architecture::step3p5:
      return step3p5();
    case Architecture::mimo_v2:
      return {.sinks = "self_attn.attention_sink_bias"};
    case Architecture::gpt_oss:
      return {.router = "mlp.router"};
    case Architecture::llama4:
      return llama4();
    case Architecture::mixtral:
    case Architecture::minimax_m2:
      return mixtral();
    default:
      return {};
  }
}

}  // namespace

std::string DecoderTensors::in_layer(int64_t layer, std::string_view name) const {
  return fmt::format("{}{}.{}", layers, layer, name);
}

std::string DecoderTensors::in_mixer(int64_t layer, std::string_view name) const {
  return in_layer(layer, fmt::format("{}{}", mixer, name));
}

std::string DecoderTensors::in_expert(int64_t layer, int64_t expert, std::string_view name) const {
  return in_layer(layer, fmt::format("{}{}.{}", experts, expert, name));
}

DecoderTensors decoder_tensors(const ModelConfig& config) {
  if (const auto names = tensors_of_encoder(config)) return *names;
  switch (config.architecture) {
    case Architecture::gpt2:
    case Architecture::gpt_bigcode:
      return gpt2(config);
    case Architecture::opt:
      return opt(config);
    case Architecture::bart:
      return bart();
    case Architecture::gpt_neox:
      return gpt_neox();
    case Architecture::falcon:
      return falcon(config);
    case Architecture::starcoder2:
      return {.up = "mlp.c_fc", .down = "mlp.c_proj"};
    case Architecture::glm:
      return {.gate_up = "mlp.gate_up_proj"};
    case Architecture::phi3:
      return {.qkv = "self_attn.qkv_proj", .gate_up = "mlp.gate_up_proj"};
    case Architecture::gemma2:
    case Architecture::gemma3:
      return gemma();
    case Architecture::gemma4:
    case Architecture::gemma4_unified:
      return gemma4();
    case Architecture::glm4:
      return glm4();
    case Architecture::stablelm:
      return {.q_norm = "self_attn.q_layernorm.norms.",
              .k_norm = "self_attn.k_layernorm.norms.",
              .has_norm_of_each_head = true};
    case Architecture::olmo2:
    case Architecture::olmo3:
    case Architecture::exaone4:
      return olmo2();
    case Architecture::mamba:
    case Architecture::mamba2:
      return mamba();
    case Architecture::nemotron_h:
      return nemotron_h();
    case Architecture::bamba:
    case Architecture::falcon_h1:
      return bamba();
    case Architecture::lfm2:
      return lfm2();
    case Architecture::hunyuan_dense:
    case Architecture::hunyuan_moe:
      return hunyuan();
    default:
      return tensors_with_experts(config);
  }
}

DecoderTensors encoder_tensors(const ModelConfig& config) {
  DecoderTensors names = decoder_tensors(config);
  names.position_embedding = "model.encoder.embed_positions";
  names.embedding_norm = "model.encoder.layernorm_embedding";
  names.layers = "model.encoder.layers.";
  names.lm_head = {};
  names.cross_q = names.cross_k = names.cross_v = names.cross_o = names.cross_result_norm = {};
  return names;
}

}  // namespace reprise::weights
