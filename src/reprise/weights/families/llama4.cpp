// Llama 4, the text model: chunked attention in layers that rotate, full attention with a
// temperature in the other layers, and experts beside a shared expert.
#include "reprise/weights/config/token_limits.h"
#include "reprise/weights/families/family_config.h"

namespace reprise::weights {
namespace {

// Reads which layers have experts: `moe_layers` lists them; without it, every
// interleave_moe_layer_step-th layer has experts.
void read_expert_layers(const FamilyConfig& in) {
  const int64_t num_layers = in.config.num_hidden_layers;
  in.config.moe_layers.assign(static_cast<size_t>(num_layers), false);
  if (in.reader.find("moe_layers") != nullptr) {
    for (const int64_t layer :
         in.reader.integers("moe_layers", 0, num_layers - 1, static_cast<size_t>(num_layers))) {
      in.config.moe_layers[static_cast<size_t>(layer)] = true;
    }
    return;
  }
  const int64_t step = in.reader.integer("interleave_moe_layer_step", 1, kMaxPositions).value_or(1);
  for (int64_t layer = step - 1; layer < num_layers; layer += step) {
    in.config.moe_layers[static_cast<size_t>(layer)] = true;
  }
}

void read_llama4_experts(const FamilyConfig& in) {
  MixtureOfExperts moe = read_experts(in, "num_local_experts", "intermediate_size", 1);
  moe.scores = RouterScores::sigmoid_of_input;
  moe.shared_intermediate_size = moe.intermediate_size;
  in.config.moe = moe;
  read_expert_layers(in);
}

// Published configs have a boolean, or a number of which 0 means no.
bool has_temperature(const FamilyConfig& in) {
  const Json* value = in.reader.find("attn_temperature_tuning");
  if (value != nullptr && value->is_number()) {
    return in.reader.number("attn_temperature_tuning", 0, 1e6).value_or(1) != 0;
  }
  return in.reader.boolean("attn_temperature_tuning").value_or(true);
}

void read_attention_layers(const FamilyConfig& in) {
  ModelConfig& config = in.config;
  // null: no layer has chunks.
  const bool is_left_out = !in.reader.has("attention_chunk_size");
  config.attention_chunk_size = in.reader.integer("attention_chunk_size", 1, kMaxPositions);
  if (is_left_out) config.attention_chunk_size = 8192;
  for (int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    const bool is_chunked = config.attention_chunk_size.has_value() && config.rotates(layer);
    config.layer_types[static_cast<size_t>(layer)] =
        is_chunked ? LayerType::chunked_attention : LayerType::full_attention;
  }
  read_layer_types(in);
}

}  // namespace

void read_llama4(const FamilyConfig& in) {
  ModelConfig& config = in.config;
  read_activation(in);
  read_sizes(in, {.intermediate_size = "intermediate_size_mlp", .default_norm_eps = 1e-5});
  read_heads(in);
  config.qkv_bias = config.o_bias = in.reader.boolean("attention_bias").value_or(false);
  config.has_unit_qk_norm = in.reader.boolean("use_qk_norm").value_or(true);
  read_rope(in, {.default_theta = 500000, .is_interleaved = true});
  read_rope_layers(in);
  read_attention_layers(in);
  if (has_temperature(in)) {
    config.attention_temperature = {
        .scale = in.reader.number("attn_scale", 0, 1e6).value_or(0.1),
        .floor_positions = in.reader.number("floor_scale", 1, kMaxPositions).value_or(8192)};
  }
  read_llama4_experts(in);
  read_tied_embeddings(in, false);
}

}  // namespace reprise::weights
