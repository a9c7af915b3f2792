// OLMo 2: norms after attention and MLP instead of before, and over all heads of q and of k.
#include "reprise/weights/families/family_config.h"

namespace reprise::weights {

void read_olmo2(const FamilyConfig& in) {
  read_activation(in);
  read_sizes(in, {.default_norm_eps = 1e-5});
  read_heads(in);
  in.config.qkv_bias = in.config.o_bias = in.reader.boolean("attention_bias").value_or(false);
  in.config.qk_norm = QkNorm::all_heads;
  read_rope(in);
  read_tied_embeddings(in, false);
}

}  // namespace reprise::weights
