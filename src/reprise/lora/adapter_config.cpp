#include "reprise/lora/adapter_config.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <string>
#include <string_view>

#include "reprise/weights/config_reader.h"
#include "reprise/weights/tensor_spec.h"

namespace reprise::lora {
namespace {

constexpr std::string_view kConfigFile = "adapter_config.json";
constexpr uint64_t kMaxConfigBytes = uint64_t{1} << 20;
constexpr int64_t kLargestRank = 65536;  // a larger number is a mistake in the file

// Keys that must be absent, null, false or empty, because the engine does not compute what they ask
// for.
struct UnsupportedKey {
  std::string_view key;
  std::string_view what;
};
constexpr auto kUnsupportedKeys = std::to_array<UnsupportedKey>({
    {"use_dora", "DoRA, which scales the merged weight, is not supported"},
    {"use_qalora", "QA-LoRA is not supported"},
    {"lora_bias", "biases of adapters are not supported"},
    {"modules_to_save", "modules that are trained whole are not supported; merge the adapter"},
    {"trainable_token_indices", "trained token embeddings are not supported; merge the adapter"},
    {"alora_invocation_tokens", "activated LoRA is not supported"},
    {"rank_pattern", "a rank for each module is not supported; use one rank"},
    {"alpha_pattern", "a lora_alpha for each module is not supported; use one lora_alpha"},
    {"use_bdlora", "BD-LoRA is not supported"},
    {"arrow_config", "Arrow is not supported"},
    {"kasa_config", "KaSA is not supported"},
    {"velora_config", "VeLoRA is not supported"},
    {"monteclora_config", "MonteCLoRA is not supported"},
    {"layer_replication", "replicated layers are not supported"},
    {"target_parameters", "adapters of parameters other than projections are not supported"},
});

bool asks_for_nothing(const Json& value) {
  return value.is_null() || value == false ||
         ((value.is_array() || value.is_object()) && value.empty());
}

void check_features(const weights::ConfigReader& reader) {
  for (const auto& [key, what] : kUnsupportedKeys) {
    const Json* value = reader.find(key);
    if (value != nullptr && !asks_for_nothing(*value)) reader.fail(key, what);
  }
  const std::string bias = reader.string("bias").value_or("none");
  if (bias != "none") {
    reader.fail("bias",
                fmt::format("'{}': trained biases are not supported; train with bias none",
                            weights::visible(bias)));
  }
  // Other ways to begin the training also change the weights of the model.
  const Json* begin = reader.find("init_lora_weights");
  const bool keeps_weights = begin == nullptr || begin->is_boolean() || *begin == "gaussian" ||
                             *begin == "orthogonal" || *begin == "eva";
  if (!keeps_weights) {
    reader.fail("init_lora_weights",
                fmt::format("{} changes the weights of the model too; convert the adapter to plain "
                            "LoRA with PEFT",
                            weights::visible(begin->dump())));
  }
}

}  // namespace

AdapterConfig read_adapter_config(const weights::ModelDirectory& directory, int64_t max_rank) {
  const std::string path = directory.path_of(kConfigFile);
  const Json json =
      weights::parse_json_file(directory.read_text(kConfigFile, kMaxConfigBytes), path, "E_CONFIG");
  const weights::ConfigReader reader(json, path);
  const std::string type = reader.string("peft_type").value_or("LORA");
  if (type != "LORA") {
    reader.fail("peft_type", fmt::format("'{}' is not LORA", weights::visible(type)));
  }
  check_features(reader);
  AdapterConfig config{.rank = reader.required_integer("r", 1, kLargestRank)};
  if (config.rank > max_rank) {
    reader.fail("r",
                fmt::format("rank {} is more than --max-lora-rank {}; start the engine with "
                            "--max-lora-rank {}",
                            config.rank,
                            max_rank,
                            config.rank));
  }
  const auto rank = static_cast<double>(config.rank);
  const double alpha = reader.number("lora_alpha", -1e9, 1e9).value_or(8);  // 8: PEFT's default
  config.scale = alpha / (reader.boolean("use_rslora").value_or(false) ? std::sqrt(rank) : rank);
  return config;
}

}  // namespace reprise::lora
