// Decoders with LayerNorm and an MLP without a gate: GPT-2, GPT-BigCode, OPT, StarCoder2, GPT-NeoX
// and Falcon.
#include <fmt/format.h>

#include "reprise/weights/config/token_limits.h"
#include "reprise/weights/families/family_config.h"

namespace reprise::weights {
namespace {

constexpr int64_t kMaxEmbeddingSize = 1 << 16;  // opt-350m has 512

void use_learned_positions(const FamilyConfig& in, int64_t offset) {
  in.config.rope.type = RopeType::none;
  in.config.has_learned_positions = true;
  in.config.learned_position_offset = offset;
}

void use_all_biases(const FamilyConfig& in, bool has_biases) {
  in.config.qkv_bias = in.config.o_bias = in.config.mlp_bias = has_biases;
}

void read_any_gpt2(const FamilyConfig& in, std::string_view activation_by_default) {
  in.config.has_gated_mlp = false;
  read_activation(in, "activation_function", activation_by_default);
  read_sizes(in,
             {.hidden_size = "n_embd",
              .intermediate_size = "n_inner",
              .num_hidden_layers = "n_layer",
              .num_attention_heads = "n_head",
              .max_position_embeddings = "n_positions",
              .norm_eps = "layer_norm_epsilon",
              .default_norm_eps = 1e-5,
              .has_default_intermediate_size = true});
  use_plain_heads(in, "n_head");
  use_layer_norm(in);
  use_all_biases(in, true);
  use_learned_positions(in, 0);
  in.config.qkv_layout = QkvLayout::stacked;
  require_boolean(in, "scale_attn_weights", true);
  require_boolean(in, "add_cross_attention", false);
  read_tied_embeddings(in, true);
}

}  // namespace

void read_gpt2(const FamilyConfig& in) {
  read_any_gpt2(in, "gelu_new");
  in.config.has_transposed_matrices = true;
  in.config.divides_scores_by_layer =
      in.reader.boolean("scale_attn_by_inverse_layer_idx").value_or(false);
}

// StarCoder: GPT-2 in which all heads share one key and value, or q, k and v of each head are
// stored together.
void read_gpt_bigcode(const FamilyConfig& in) {
  read_any_gpt2(in, "gelu_pytorch_tanh");
  if (in.reader.boolean("multi_query").value_or(true)) {
    in.config.num_key_value_heads = 1;
  } else {
    in.config.qkv_layout = QkvLayout::per_head;
  }
}

void read_opt(const FamilyConfig& in) {
  in.config.has_gated_mlp = false;
  read_activation(in, "activation_function", "relu");
  read_sizes(in, {.intermediate_size = "ffn_dim", .norm_eps = {}, .default_norm_eps = 1e-5});
  use_plain_heads(in, "num_attention_heads");
  use_layer_norm(in);
  use_all_biases(in, true);
  use_learned_positions(in, 2);
  // One size, the second smallest (350m), has norms after the sums and projections around the
  // layers.
  in.config.has_post_norms = !in.reader.boolean("do_layer_norm_before").value_or(true);
  require_boolean(in, "enable_bias", true);
  require_boolean(in, "layer_norm_elementwise_affine", true);
  require_boolean(in, "_remove_final_layer_norm", false);
  const int64_t hidden = in.config.hidden_size;
  const int64_t size =
      in.reader.integer("word_embed_proj_dim", 1, kMaxEmbeddingSize).value_or(hidden);
  if (size != hidden) in.config.embedding_size = size;
  read_tied_embeddings(in, true);
}

void read_starcoder2(const FamilyConfig& in) {
  in.config.has_gated_mlp = false;
  read_activation(in, "hidden_act", "gelu_pytorch_tanh");
  read_sizes(in, {.norm_eps = "norm_epsilon", .default_norm_eps = 1e-5});
  read_heads(in);
  use_layer_norm(in);
  use_all_biases(in, in.reader.boolean("use_bias").value_or(true));
  use_window(in, in.reader.integer("sliding_window", 1, kMaxPositions));
  read_layer_types(in);
  read_rope(in);
  read_tied_embeddings(in, true);
}

void read_gpt_neox(const FamilyConfig& in) {
  in.config.has_gated_mlp = false;
  read_activation(in, "hidden_act", "gelu");
  read_sizes(in, {.norm_eps = "layer_norm_eps", .default_norm_eps = 1e-5});
  use_plain_heads(in, "num_attention_heads");
  use_layer_norm(in);
  in.config.qkv_bias = in.config.o_bias = in.reader.boolean("attention_bias").value_or(true);
  in.config.mlp_bias = true;
  in.config.qkv_layout = QkvLayout::per_head;
  in.config.has_parallel_residual = in.reader.boolean("use_parallel_residual").value_or(true);
  in.config.has_parallel_norms = in.config.has_parallel_residual;
  read_rope(in,
            {.theta = in.reader.has("rotary_emb_base") ? "rotary_emb_base" : "rope_theta",
             .partial_factor = in.reader.has("rotary_pct") ? "rotary_pct" : "partial_rotary_factor",
             .default_partial_factor = 0.25});
  read_tied_embeddings(in, false);
}

void read_falcon(const FamilyConfig& in) {
  ModelConfig& config = in.config;
  config.has_gated_mlp = false;
  read_activation(in, "activation", "gelu");
  read_sizes(in,
             {.intermediate_size = "ffn_hidden_size",
              .norm_eps = "layer_norm_epsilon",
              .default_norm_eps = 1e-5,
              .default_max_positions = 2048,
              .has_default_intermediate_size = true});
  use_plain_heads(in, "num_attention_heads");
  use_layer_norm(in);
  use_all_biases(in, in.reader.boolean("bias").value_or(false));
  config.has_alibi = in.reader.boolean("alibi").value_or(false);
  const bool is_new = in.reader.boolean("new_decoder_architecture").value_or(false);
  const bool has_one_kv_head = in.reader.boolean("multi_query").value_or(true);
  if (is_new) {
    const int64_t heads = config.num_attention_heads;
    config.num_key_value_heads = in.reader.integer("num_kv_heads", 1, heads).value_or(heads);
    if (heads % config.num_key_value_heads != 0) {
      in.reader.fail(
          "num_kv_heads",
          fmt::format(
              "{} does not divide num_attention_heads {}", config.num_key_value_heads, heads));
    }
    config.qkv_layout = QkvLayout::per_group;
  } else {
    config.qkv_layout = has_one_kv_head ? QkvLayout::stacked : QkvLayout::per_head;
    if (has_one_kv_head) config.num_key_value_heads = 1;
  }
  config.has_parallel_residual = is_new || in.reader.boolean("parallel_attn").value_or(true);
  config.has_parallel_norms =
      is_new && in.reader.integer("num_ln_in_parallel_attn", 1, 2).value_or(2) == 2;
  if (config.has_alibi) {
    config.rope.type = RopeType::none;
  } else {
    read_rope(in);
  }
  read_tied_embeddings(in, true);
}

}  // namespace reprise::weights
