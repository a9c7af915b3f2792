// GLM-4: norms before and after attention and MLP, half of a head rotated in neighbouring pairs.
#include "reprise/weights/families/family_config.h"

namespace reprise::weights {

void read_glm4(const FamilyConfig& in) {
  read_activation(in);
  read_sizes(in, {.default_norm_eps = 1.5625e-7});
  read_heads(in, 128);
  in.config.qkv_bias = in.reader.boolean("attention_bias").value_or(false);
  read_rope(in,
            {.partial_factor = "partial_rotary_factor",
             .default_partial_factor = 0.5,
             .is_interleaved = true});
  read_tied_embeddings(in, false);
}

}  // namespace reprise::weights
