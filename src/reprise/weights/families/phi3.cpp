// Phi-3 and Phi-4: fused projections, longrope, part of a head rotated.
#include "reprise/weights/config/token_limits.h"
#include "reprise/weights/families/family_config.h"

namespace reprise::weights {

void read_phi3(const FamilyConfig& in) {
  read_activation(in);
  read_sizes(in, {.default_norm_eps = 1e-5});
  read_heads(in);
  in.config.qkv_layout = QkvLayout::stacked;
  use_window(in, in.reader.integer("sliding_window", 1, kMaxPositions));
  read_layer_types(in);
  read_rope(in, {.partial_factor = "partial_rotary_factor", .yarn_means_longrope = true});
  read_tied_embeddings(in, false);
}

}  // namespace reprise::weights
