// BART: an encoder, and a decoder that attends to its hidden states; norms after each part.
#include <fmt/format.h>

#include <cmath>

#include "reprise/weights/config/token_limits.h"
#include "reprise/weights/families/family_config.h"

namespace reprise::weights {
namespace {

// The tokens with which every answer begins. If the model forces a first token
// (forced_bos_token_id), it comes after the start token and is known before the first step.
std::vector<int32_t> read_decoder_prompt(const FamilyConfig& in) {
  const int64_t last = in.config.vocab_size - 1;
  std::vector<int32_t> prompt = {
      static_cast<int32_t>(in.reader.required_integer("decoder_start_token_id", 0, last))};
  if (const auto forced = in.reader.integer("forced_bos_token_id", 0, last)) {
    prompt.push_back(static_cast<int32_t>(*forced));
  }
  return prompt;
}

}  // namespace

void read_bart(const FamilyConfig& in) {
  ModelConfig& config = in.config;
  config.has_gated_mlp = false;
  read_activation(in, "activation_function", "gelu");
  read_sizes(in,
             {.hidden_size = "d_model",
              .intermediate_size = "decoder_ffn_dim",
              .num_hidden_layers = "decoder_layers",
              .num_attention_heads = "decoder_attention_heads",
              .norm_eps = {},
              .default_norm_eps = 1e-5});
  use_plain_heads(in, "decoder_attention_heads");
  use_layer_norm(in);
  config.qkv_bias = config.o_bias = config.mlp_bias = true;
  config.has_learned_positions = true;
  config.learned_position_offset = 2;
  config.rope.type = RopeType::none;
  if (in.reader.boolean("scale_embedding").value_or(false)) {
    config.embedding_scale = std::sqrt(static_cast<double>(config.hidden_size));
  }
  const int64_t heads = config.num_attention_heads;
  if (in.reader.required_integer("encoder_attention_heads", 1, kMaxHeads) != heads) {
    in.reader.fail("encoder_attention_heads",
                   fmt::format("only decoder_attention_heads {} is supported", heads));
  }
  config.encoder = EncoderConfig{
      .num_layers = in.reader.required_integer("encoder_layers", 1, kMaxLayers),
      .intermediate_size = in.reader.required_integer("encoder_ffn_dim", 1, kMaxIntermediateSize),
      .decoder_prompt = read_decoder_prompt(in)};
  require_boolean(in, "is_encoder_decoder", true);
  // Members of early configs, in which MBART and Marian differ from BART.
  require_boolean(in, "normalize_before", false);
  require_boolean(in, "add_final_layer_norm", false);
  require_boolean(in, "static_position_embeddings", false);
  read_tied_embeddings(in, true);
}

}  // namespace reprise::weights
