// OLMo 2 and 3: norms after attention and MLP instead of before, and over all heads of q and of k.
// OLMo 3 has windows.
#include "reprise/weights/families/family_config.h"
#include "reprise/weights/token_limits.h"

namespace reprise::weights {
namespace {

void read_any_olmo(const FamilyConfig& in) {
  read_activation(in);
  read_sizes(in, {.default_norm_eps = 1e-5});
  read_heads(in);
  in.config.qkv_bias = in.config.o_bias = in.reader.boolean("attention_bias").value_or(false);
  in.config.qk_norm = QkNorm::all_heads;
  read_tied_embeddings(in, false);
}

}  // namespace

void read_olmo2(const FamilyConfig& in) {
  read_any_olmo(in);
  read_rope(in);
}

void read_olmo3(const FamilyConfig& in) {
  read_any_olmo(in);
  use_window_except_every(
      in, in.reader.integer("sliding_window", 1, kMaxPositions).value_or(4096), 4);
  read_layer_types(in);
  read_rope_by_layer_type(in, 1e4, "rope_theta", 1e4);
}

}  // namespace reprise::weights
