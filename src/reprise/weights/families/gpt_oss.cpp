// GPT-OSS: attention sinks, a window in every other layer, and stacked experts with biases.
#include <fmt/format.h>

#include "reprise/weights/config/token_limits.h"
#include "reprise/weights/families/family_config.h"

namespace reprise::weights {
namespace {

// The only published value. The op swigluoai_and_mul has it as a constant.
constexpr double kSwigluAlpha = 1.702;

void read_gpt_oss_experts(const FamilyConfig& in) {
  const ConfigReader& reader = in.reader;
  const auto count = reader.has("num_local_experts") ? "num_local_experts" : "num_experts";
  MixtureOfExperts moe = read_experts(in, count, "intermediate_size", 4);
  moe.renormalises = true;
  moe.is_stacked = true;
  moe.swiglu_limit = reader.number("swiglu_limit", 1e-6, 1e6).value_or(7.0);
  if (reader.number("swiglu_alpha", 0, 1e6).value_or(kSwigluAlpha) != kSwigluAlpha) {
    reader.fail("swiglu_alpha", fmt::format("only {} is supported", kSwigluAlpha));
  }
  in.config.moe = moe;
  in.config.moe_layers.assign(static_cast<size_t>(in.config.num_hidden_layers), true);
}

}  // namespace

void read_gpt_oss(const FamilyConfig& in) {
  ModelConfig& config = in.config;
  read_activation(in);
  read_sizes(in, {.default_norm_eps = 1e-5});
  read_heads(in, 64);
  config.qkv_bias = config.o_bias = in.reader.boolean("attention_bias").value_or(true);
  config.has_attention_sinks = true;
  const auto window = in.reader.integer("sliding_window", 1, kMaxPositions);
  use_window_except_every(in, window.value_or(128), 2);
  read_layer_types(in);
  read_rope(in, {.default_theta = 150000});
  read_gpt_oss_experts(in);
  read_tied_embeddings(in, false);
}

}  // namespace reprise::weights
