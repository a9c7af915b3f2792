// SmolLM3: Llama, but every fourth layer has no rotation.
#include "reprise/weights/families/family_config.h"
#include "reprise/weights/token_limits.h"

namespace reprise::weights {
namespace {

// `no_rope_layers` has a 1 for each layer that rotates, in spite of its name.
void read_rope_layers(const FamilyConfig& in) {
  ModelConfig& config = in.config;
  const auto num_layers = static_cast<size_t>(config.num_hidden_layers);
  const auto period = in.reader.integer("no_rope_layer_interval", 1, kMaxPositions).value_or(4);
  const std::vector<int64_t> listed =
      in.reader.integers("no_rope_layers", 0, 1, static_cast<size_t>(kMaxPositions));
  if (!listed.empty() && listed.size() != num_layers) {
    in.reader.fail("no_rope_layers", "must have one entry for each of num_hidden_layers");
  }
  for (size_t layer = 0; layer < num_layers; ++layer) {
    config.rope_layers.push_back(listed.empty() ? (static_cast<int64_t>(layer) + 1) % period != 0
                                                : listed[layer] == 1);
  }
}

}  // namespace

void read_smollm3(const FamilyConfig& in) {
  read_activation(in);
  read_sizes(in);
  read_heads(in);
  in.config.qkv_bias = in.config.o_bias = in.reader.boolean("attention_bias").value_or(false);
  in.config.mlp_bias = in.reader.boolean("mlp_bias").value_or(false);
  if (in.reader.boolean("use_sliding_window").value_or(false)) {
    in.config.sliding_window = in.reader.integer("sliding_window", 1, kMaxPositions);
  }
  read_layer_types(in);
  read_rope(in, {.default_theta = 2e6});
  read_rope_layers(in);
  read_tied_embeddings(in, true);
}

}  // namespace reprise::weights
