// Gemma 1, 2 and 3 (text).
#include <cmath>

#include "reprise/weights/config/token_limits.h"
#include "reprise/weights/families/family_config.h"

namespace reprise::weights {
namespace {

void read_gemma(const FamilyConfig& in, std::string_view activation_key) {
  ModelConfig& config = in.config;
  config.norm = NormType::gemma_rms_norm;
  read_activation(in, activation_key, "gelu_pytorch_tanh");
  read_sizes(in);
  read_heads(in, 256);
  config.qkv_bias = config.o_bias = in.reader.boolean("attention_bias").value_or(false);
  config.embedding_scale = std::sqrt(static_cast<double>(config.hidden_size));
  read_tied_embeddings(in, true);
}

// The scale of scores is 1 / sqrt(query_pre_attn_scalar).
void read_query_scale(const FamilyConfig& in) {
  in.config.attention_scale = 1.0 / std::sqrt(read_multiplier(in, "query_pre_attn_scalar", 256));
}

}  // namespace

void read_gemma1(const FamilyConfig& in) {
  const bool has_new_key = in.reader.find("hidden_activation") != nullptr;
  read_gemma(in, has_new_key ? "hidden_activation" : "hidden_act");
  read_rope(in);
}

void read_gemma2(const FamilyConfig& in) {
  read_gemma(in, "hidden_activation");
  read_query_scale(in);
  in.config.attention_soft_cap = read_soft_cap(in, "attn_logit_softcapping", 50);
  in.config.logits_soft_cap = read_soft_cap(in, "final_logit_softcapping", 30);
  const auto window = in.reader.integer("sliding_window", 1, kMaxPositions);
  use_window_except_every(in, window.value_or(4096), 2);
  read_layer_types(in);
  read_rope(in);
}

void read_gemma3(const FamilyConfig& in) {
  read_gemma(in, "hidden_activation");
  read_query_scale(in);
  ModelConfig& config = in.config;
  config.qk_norm = QkNorm::per_head;
  config.attention_soft_cap = read_soft_cap(in, "attn_logit_softcapping", 0);
  config.logits_soft_cap = read_soft_cap(in, "final_logit_softcapping", 0);
  config.is_encoder = in.reader.boolean("use_bidirectional_attention").value_or(false);
  int64_t window = in.reader.integer("sliding_window", 1, kMaxPositions).value_or(4096);
  if (config.is_encoder) window = window / 2 + 1;  // of EmbeddingGemma: in each direction
  const int64_t period = in.reader.integer("sliding_window_pattern", 1, kMaxPositions).value_or(6);
  use_window_except_every(in, window, period);
  read_layer_types(in);
  read_rope_by_layer_type(in, {.default_theta = 1e6}, {.theta = "rope_local_base_freq"});
}

}  // namespace reprise::weights
