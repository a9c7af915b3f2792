// BERT, RoBERTa and XLM-RoBERTa: encoders with norms behind attention and MLP.
#include <fmt/format.h>

#include <string_view>

#include "reprise/weights/families/family_config.h"
#include "reprise/weights/tensor_spec.h"
#include "reprise/weights/token_limits.h"

namespace reprise::weights {
namespace {

constexpr int64_t kMaxTokenTypes = 1024;  // published models have 1 or 2
constexpr int64_t kPaddingOfRoberta = 1;  // the default of RobertaConfig in Transformers

// The position of a token also tells the type of its text (ModelConfig::second_text_offset), so
// tokens with types have learned positions and are not rotated.
void refuse_rotation(const ConfigReader& reader) {
  const std::string kind = reader.string("position_embedding_type").value_or("absolute");
  if (kind != "absolute") {
    reader.fail("position_embedding_type",
                fmt::format("'{}' is not supported; supported: absolute", visible(kind)));
  }
  for (const std::string_view key : {"rope_parameters",
                                     "rope_scaling",
                                     "rope_theta",
                                     "rotary_emb_base",
                                     "rotary_emb_fraction"}) {
    if (reader.find(key) == nullptr) continue;
    reader.fail(key,
                "rotated positions together with token types are not supported; supported: learned "
                "positions, without this member");
  }
}

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
  refuse_rotation(in.reader);
  require_boolean(in, "is_decoder", false);
}

// The rows up to that of the padding are not of positions. A padding token inside of a text gets a
// position like any other token, as in vLLM; Transformers leaves it out of the count.
void read_roberta(const FamilyConfig& in) {
  read_bert(in);
  ModelConfig& config = in.config;
  const int64_t padding =
      in.reader.integer("pad_token_id", 0, config.vocab_size - 1).value_or(kPaddingOfRoberta);
  config.learned_position_offset = padding + 1;
  config.max_position_embeddings -= config.learned_position_offset;
  if (config.max_position_embeddings < 1) {
    in.reader.fail("max_position_embeddings",
                   fmt::format("leaves no position: the first one is row {} (pad_token_id + 1)",
                               config.learned_position_offset));
  }
}

}  // namespace reprise::weights
