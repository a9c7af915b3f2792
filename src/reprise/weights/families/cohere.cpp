// Command-R: LayerNorm without biases, a parallel residual with one norm, neighbouring pairs
// rotated.
#include "reprise/weights/families/family_config.h"

namespace reprise::weights {

void read_cohere(const FamilyConfig& in) {
  read_activation(in);
  read_sizes(in, {.norm_eps = "layer_norm_eps", .default_norm_eps = 1e-5});
  read_heads(in);
  in.config.norm = NormType::layer_norm;
  in.config.has_parallel_residual = true;
  in.config.qkv_bias = in.config.o_bias = in.reader.boolean("attention_bias").value_or(false);
  in.config.logits_scale = read_multiplier(in, "logit_scale", 0.0625);
  require_boolean(in, "use_qk_norm", false);
  read_rope(in, {.is_interleaved = true});
  read_tied_embeddings(in, true);
}

}  // namespace reprise::weights
