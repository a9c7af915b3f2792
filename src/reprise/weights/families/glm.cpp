// GLM and GLM-4: half of a head rotated in neighbouring pairs. GLM-4 has norms before and after
// attention and MLP. GLM-4.5 and its successors, Solar Open and dots.llm1: attention with keys and
// values of heads, and the experts of DeepSeek-V3.
#include "reprise/weights/config/token_limits.h"
#include "reprise/weights/families/family_config.h"

namespace reprise::weights {
namespace {

void read_any_glm(const FamilyConfig& in) {
  read_activation(in);
  read_sizes(in, {.default_norm_eps = 1.5625e-7});
  read_heads(in, 128);
  in.config.qkv_bias = in.reader.boolean("attention_bias").value_or(true);
  read_rope(in,
            {.partial_factor = "partial_rotary_factor",
             .default_partial_factor = 0.5,
             .is_interleaved = true});
  read_tied_embeddings(in, false);
}

}  // namespace

void read_glm(const FamilyConfig& in) { read_any_glm(in); }
void read_glm4(const FamilyConfig& in) { read_any_glm(in); }

void read_glm4_moe(const FamilyConfig& in) {
  read_activation(in);
  read_sizes(in, {.default_norm_eps = 1e-5});
  read_heads(in);
  in.config.qkv_bias = in.reader.boolean("attention_bias").value_or(false);
  if (in.reader.boolean("use_qk_norm").value_or(false)) in.config.qk_norm = QkNorm::per_head;
  read_experts_of_deepseek(in, RouterScores::sigmoid_with_bias, {.num_dense = 1});
  read_rope(in, {.partial_factor = "partial_rotary_factor", .default_partial_factor = 0.5});
  read_tied_embeddings(in, false);
}

void read_solar_open(const FamilyConfig& in) {
  read_activation(in);
  read_sizes(in, {.default_norm_eps = 1e-5, .has_default_intermediate_size = true});
  read_heads(in, 128);
  in.config.qkv_bias = in.reader.boolean("attention_bias").value_or(false);
  read_experts_of_deepseek(in, RouterScores::sigmoid_with_bias);
  read_rope(in, {.default_theta = 1e6, .partial_factor = "partial_rotary_factor"});
  read_tied_embeddings(in, false);
}

void read_dots1(const FamilyConfig& in) {
  read_activation(in);
  read_sizes(in);
  read_heads(in);
  in.config.qkv_bias = in.config.o_bias = in.reader.boolean("attention_bias").value_or(false);
  in.config.qk_norm = QkNorm::per_head;
  const auto window = in.reader.integer("sliding_window", 1, kMaxPositions);
  use_window_from(in,
                  in.reader.has("sliding_window") ? window : std::optional<int64_t>(4096),
                  in.reader.integer("max_window_layers", 0, kMaxPositions).value_or(62));
  read_layer_types(in);
  read_experts_of_deepseek(in, RouterScores::sigmoid_with_bias, {.renormalises = false});
  read_rope(in);
  read_tied_embeddings(in, false);
}

}  // namespace reprise::weights
