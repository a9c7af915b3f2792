// Command-R and Command-R7B: LayerNorm without biases, a parallel residual with one norm,
// neighbouring pairs rotated. Command-R+ has norms of the heads of q and k. Command-R7B has
// windows, and only its sliding layers rotate.
#include "reprise/weights/config/token_limits.h"
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
  if (in.reader.boolean("use_qk_norm").value_or(false)) in.config.qk_norm = QkNorm::own_per_head;
  read_rope(in, {.is_interleaved = true});
  read_tied_embeddings(in, true);
}

void read_cohere2(const FamilyConfig& in) {
  require_boolean(in, "use_qk_norm", false);
  read_cohere(in);
  use_window_except_every(
      in,
      in.reader.integer("sliding_window", 1, kMaxPositions).value_or(4096),
      in.reader.integer("sliding_window_pattern", 1, kMaxPositions).value_or(4));
  read_layer_types(in);
  for (const LayerType type : in.config.layer_types) {
    in.config.rope_layers.push_back(type == LayerType::sliding_attention);
  }
}

}  // namespace reprise::weights
