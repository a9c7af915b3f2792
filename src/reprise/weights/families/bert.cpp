// BERT and its successors: encoders.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "reprise/weights/config/token_limits.h"
#include "reprise/weights/families/family_config.h"
#include "reprise/weights/tensor_spec.h"

namespace reprise::weights {
namespace {

constexpr int64_t kMaxTokenTypes = 1024;  // published models have 1 or 2
constexpr int64_t kPaddingOfRoberta = 1;  // the default of RobertaConfig in Transformers

// The position of a token also tells the type of its text (ModelConfig::second_text_offset). So
// models that distinguish types have learned positions, and no rotation.
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

// Sets everything that all encoders of this file have in common.
void use_encoder(const FamilyConfig& in) {
  in.config.is_encoder = true;
  use_layer_norm(in);
  require_boolean(in, "is_decoder", false);
  require_boolean(in, "add_cross_attention", false);
}

}  // namespace

void read_bert(const FamilyConfig& in) {
  ModelConfig& config = in.config;
  use_encoder(in);
  config.has_gated_mlp = false;
  read_activation(in, "hidden_act", "gelu");
  read_sizes(in, {.norm_eps = "layer_norm_eps", .default_norm_eps = 1e-12});
  use_plain_heads(in, "num_attention_heads");
  config.qkv_bias = config.o_bias = config.mlp_bias = true;
  config.has_learned_positions = true;
  config.rope.type = RopeType::none;
  config.num_token_types = in.reader.integer("type_vocab_size", 1, kMaxTokenTypes).value_or(2);
  refuse_rotation(in.reader);
}

// The table's rows up to the row of the padding token are not positions. A padding token inside a
// text gets a position like any other token, as in vLLM; Transformers does not count it.
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

// RoBERTa with norms before attention and before the MLP.
void read_xlm_roberta_xl(const FamilyConfig& in) {
  read_roberta(in);
  in.config.norm_eps = in.reader.number("layer_norm_eps", 1e-30, 1.0).value_or(1e-5);
}

// BERT without types of tokens.
void read_distilbert(const FamilyConfig& in) {
  ModelConfig& config = in.config;
  use_encoder(in);
  config.has_gated_mlp = false;
  read_activation(in, "activation", "gelu");
  read_sizes(in,
             {.hidden_size = "dim",
              .intermediate_size = "hidden_dim",
              .num_hidden_layers = "n_layers",
              .num_attention_heads = "n_heads"});
  config.norm_eps = 1e-12;  // which no member changes
  use_plain_heads(in, "n_heads");
  config.qkv_bias = config.o_bias = config.mlp_bias = true;
  config.has_learned_positions = true;
  config.rope.type = RopeType::none;
}

// A window of n tokens reaches n / 2 positions before and after a token.
void read_modernbert(const FamilyConfig& in) {
  ModelConfig& config = in.config;
  use_encoder(in);
  config.norm_bias = in.reader.boolean("norm_bias").value_or(false);
  read_activation(in, "hidden_activation", "gelu");
  read_sizes(in, {.norm_eps = "norm_eps", .default_norm_eps = 1e-5});
  use_plain_heads(in, "num_attention_heads");
  config.qkv_layout = QkvLayout::stacked;
  config.qkv_bias = config.o_bias = in.reader.boolean("attention_bias").value_or(false);
  config.mlp_bias = in.reader.boolean("mlp_bias").value_or(false);
  use_window(in, in.reader.integer("local_attention", 1, kMaxPositions).value_or(128) / 2 + 1);
  const int64_t period =
      in.reader.integer("global_attn_every_n_layers", 1, kMaxPositions).value_or(3);
  for (int64_t layer = 0; layer < config.num_hidden_layers; layer += period) {
    config.layer_types[static_cast<size_t>(layer)] = LayerType::full_attention;
  }
  read_layer_types(in);
  read_rope_by_layer_type(
      in, {.theta = "global_rope_theta", .default_theta = 160000}, {.theta = "local_rope_theta"});
}

// The original code of Nomic's models uses GPT-2's names for members, and has switches for features
// of its author's other models. Transformers writes BERT's names.
void read_nomic_bert(const FamilyConfig& in) {
  ModelConfig& config = in.config;
  use_encoder(in);
  const bool is_of_gpt = in.reader.has("n_embd");
  if (!is_of_gpt) {
    read_activation(in);
    read_sizes(in, {.norm_eps = "layer_norm_eps", .default_norm_eps = 1e-12});
    use_plain_heads(in, "num_attention_heads");
    read_rope(in, {.default_theta = 1000});
  } else {
    const std::string name = in.reader.string("activation_function").value_or("swiglu");
    if (name != "swiglu") in.reader.fail("activation_function", "only swiglu is supported");
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
    for (const std::string_view key : {"qkv_proj_bias",
                                       "mlp_fc1_bias",
                                       "mlp_fc2_bias",
                                       "prenorm",
                                       "use_rms_norm",
                                       "rotary_emb_interleaved",
                                       "parallel_block",
                                       "causal"}) {
      require_boolean(in, key, false);
    }
    read_rope(in,
              {.theta = "rotary_emb_base",
               .default_theta = 1000,
               .partial_factor = "rotary_emb_fraction"});
    // As in vLLM, positions beyond those of the training need a scaling, which published files do
    // not have.
    const auto trained = in.reader.integer("max_trained_positions", 1, kMaxPositions);
    config.max_position_embeddings =
        std::min(config.max_position_embeddings, trained.value_or(kMaxPositions));
  }
  config.qkv_layout = QkvLayout::stacked;
  config.num_token_types = in.reader.integer("type_vocab_size", 1, kMaxTokenTypes).value_or(2);
  if (config.rope.type != RopeType::standard) {
    in.reader.fail("rope_parameters", "only the type default is supported");
  }
}

}  // namespace reprise::weights
