// Granite and MiniCPM: Llama with four multipliers, which have different names in the two.
#include <cmath>

#include "reprise/weights/families/family_config.h"

namespace reprise::weights {

void read_granite(const FamilyConfig& in) {
  read_activation(in);
  read_sizes(in);
  read_heads(in);
  ModelConfig& config = in.config;
  config.qkv_bias = config.o_bias = in.reader.boolean("attention_bias").value_or(false);
  config.mlp_bias = in.reader.boolean("mlp_bias").value_or(false);
  config.embedding_scale = read_multiplier(in, "embedding_multiplier", 1);
  config.attention_scale = read_multiplier(in, "attention_multiplier", 1);
  config.residual_scale = read_multiplier(in, "residual_multiplier", 1);
  config.logits_scale = 1 / read_multiplier(in, "logits_scaling", 1);
  read_rope(in);
  read_tied_embeddings(in, false);
}

// Source: MiniCPM-2B's configuration_minicpm.py and modeling_minicpm.py (the checkpoint's own
// code).
void read_minicpm(const FamilyConfig& in) {
  read_activation(in);
  read_sizes(in);
  read_heads(in);
  ModelConfig& config = in.config;
  config.qkv_bias = config.o_bias = in.reader.boolean("attention_bias").value_or(false);
  config.embedding_scale = read_multiplier(in, "scale_emb", 1);
  config.residual_scale = read_multiplier(in, "scale_depth", 1) /
                          std::sqrt(static_cast<double>(config.num_hidden_layers));
  config.logits_scale =
      read_multiplier(in, "dim_model_base", 1) / static_cast<double>(config.hidden_size);
  read_rope(in);
  read_tied_embeddings(in, true);
}

}  // namespace reprise::weights
