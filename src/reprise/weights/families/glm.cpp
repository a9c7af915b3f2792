// GLM and GLM-4: half of a head rotated in neighbouring pairs. GLM-4 has norms before and after
// attention and MLP.
#include "reprise/weights/families/family_config.h"

namespace reprise::weights {
namespace {

void read_any_glm(const FamilyConfig& in, bool has_bias_by_default) {
  read_activation(in);
  read_sizes(in, {.default_norm_eps = 1.5625e-7});
  read_heads(in, 128);
  in.config.qkv_bias = in.reader.boolean("attention_bias").value_or(has_bias_by_default);
  read_rope(in,
            {.partial_factor = "partial_rotary_factor",
             .default_partial_factor = 0.5,
             .is_interleaved = true});
  read_tied_embeddings(in, false);
}

}  // namespace

void read_glm(const FamilyConfig& in) { read_any_glm(in, true); }
void read_glm4(const FamilyConfig& in) { read_any_glm(in, false); }

}  // namespace reprise::weights
