// BERT: an encoder with norms behind attention and MLP.
#include "reprise/weights/families/family_config.h"
#include "reprise/weights/token_limits.h"

namespace reprise::weights {
namespace {

constexpr int64_t kMaxTokenTypes = 1024;  // published models have 1 or 2

}  // namespace

void read_bert(const FamilyConfig& in) {
  ModelConfig& config = in.config;
  config.is_encoder = true;
  config.has_gated_mlp = false;
  read_activation(in, "hidden_act", "gelu");
  read_sizes(in, {.norm_eps = "layer_norm_eps", .default_norm_eps = 1e-12});
  use_plain_heads(in, "num_attention_heads");
  use_layer_norm(in);
  config.qkv_bias = config.o_bias = config.mlp_bias = true;
  config.has_learned_positions = true;
  config.rope.type = RopeType::none;
  config.num_token_types = in.reader.integer("type_vocab_size", 1, kMaxTokenTypes).value_or(2);
  const std::string kind = in.reader.string("position_embedding_type").value_or("absolute");
  if (kind != "absolute") {
    in.reader.fail("position_embedding_type", "only absolute is supported");
  }
  require_boolean(in, "is_decoder", false);
}

}  // namespace reprise::weights
