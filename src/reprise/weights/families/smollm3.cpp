// SmolLM3: Llama, but every fourth layer has no rotation.
#include "reprise/weights/config/token_limits.h"
#include "reprise/weights/families/family_config.h"

namespace reprise::weights {
void read_smollm3(const FamilyConfig& in) {
  read_activation(in);
  read_sizes(in);
  read_heads(in);
  in.config.qkv_bias = in.config.o_bias = in.reader.boolean("attention_bias").value_or(false);
  in.config.mlp_bias = in.reader.boolean("mlp_bias").value_or(false);
  if (in.reader.boolean("use_sliding_window").value_or(false)) {
    in.config.sliding_window = in.reader.integer("sliding_window", 1, kMaxPositions);
  }
  read_layer_types(in);
  read_rope(in, {.default_theta = 2e6});
  read_rope_layers(in);
  read_tied_embeddings(in, true);
}

}  // namespace reprise::weights
