// StableLM: Llama with LayerNorm, a quarter of a head rotated, and perhaps a parallel residual and
// norms of the heads of q and k.
#include "reprise/weights/families/family_config.h"

namespace reprise::weights {

void read_stablelm(const FamilyConfig& in) {
  read_activation(in);
  read_sizes(in, {.norm_eps = "layer_norm_eps", .default_norm_eps = 1e-5});
  read_heads(in);
  use_layer_norm(in);
  in.config.qkv_bias = in.reader.boolean("use_qkv_bias").value_or(false);
  in.config.has_parallel_residual = in.reader.boolean("use_parallel_residual").value_or(false);
  if (in.reader.boolean("qk_layernorm").value_or(false)) in.config.qk_norm = QkNorm::own_per_head;
  read_rope(in, {.partial_factor = "partial_rotary_factor", .default_partial_factor = 0.25});
  read_tied_embeddings(in, false);
}

}  // namespace reprise::weights
