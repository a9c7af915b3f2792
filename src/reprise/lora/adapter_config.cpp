#include "reprise/lora/adapter_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <string>
#include <string_view>

#include "reprise/weights/files/config_reader.h"
#include "reprise/weights/tensor_spec.h"

namespace reprise::lora {
namespace {

constexpr uint64_t kMaxConfigBytes = uint64_t{1} << 20;
constexpr int64_t kLargestRank = 65536;  // a larger number is a mistake in the file
constexpr double kLargestAlpha = 1e9;    // likewise

// Keys that must be absent, null, false or empty, because the engine does not compute the feature
// that they enable.
struct UnsupportedKey {
  std::string_view key;
  std::string_view what;
};
constexpr auto kUnsupportedKeys = std::to_array<UnsupportedKey>({
    {"use_dora", "DoRA, which scales the merged weight, is not supported"},
    {"use_qalora", "QA-LoRA is not supported"},
    {"lora_bias", "biases of adapters are not supported"},
    {"trainable_token_indices", "trained token embeddings are not supported; merge the adapter"},
    {"alora_invocation_tokens", "activated LoRA is not supported"},
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
  // With other values the training also changed the weights of the model.
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

void require_rank(const weights::ConfigReader& reader,
                  std::string_view key,
                  int64_t rank,
                  int64_t max_rank) {
  if (rank <= max_rank) return;
  reader.fail(key,
              fmt::format("rank {} is more than --max-lora-rank {}; start the engine with "
                          "--max-lora-rank {}",
                          rank,
                          max_rank,
                          rank));
}

// The ranks of single modules. Which module has which of them follows from the matrices.
void read_other_ranks(const weights::ConfigReader& reader,
                      int64_t max_rank,
                      AdapterConfig& config) {
  constexpr std::string_view kKey = "rank_pattern";
  const auto pattern = reader.object(kKey);
  if (!pattern) return;
  for (const auto& [module, rank] : reader.find(kKey)->items()) {
    config.other_ranks.push_back(pattern->required_integer(module, 1, kLargestRank));
    require_rank(reader, kKey, config.other_ranks.back(), max_rank);
  }
}

// PEFT reads the keys as regular expressions that match the end of a module's name. Plain names
// match the same modules by comparison.
void read_other_alphas(const weights::ConfigReader& reader, AdapterConfig& config) {
  constexpr std::string_view kKey = "alpha_pattern";
  const auto pattern = reader.object(kKey);
  if (!pattern) return;
  for (const auto& [module, unused] : reader.find(kKey)->items()) {
    config.other_alphas.emplace_back(
        module, pattern->number(module, -kLargestAlpha, kLargestAlpha).value_or(config.alpha));
  }
  const auto changes = [&](const auto& entry) { return entry.second != config.alpha; };
  if (std::ranges::none_of(config.other_alphas, changes)) return config.other_alphas.clear();
  for (const auto& [module, alpha] : config.other_alphas) {
    const bool is_plain = std::ranges::all_of(module, [](unsigned char c) {
      return std::isalnum(c) != 0 || c == '_' || c == '.' || c == '-';
    });
    if (is_plain) continue;
    reader.fail(kKey,
                fmt::format("'{}': only the ends of module names are supported; merge the adapter",
                            weights::visible(module)));
  }
}

}  // namespace

AdapterConfig read_adapter_config(const weights::ModelDirectory& directory, int64_t max_rank) {
  const std::string path = directory.path_of(kAdapterConfigFile);
  const Json json = weights::parse_json_file(
      directory.read_text(kAdapterConfigFile, kMaxConfigBytes), path, "E_CONFIG");
  const weights::ConfigReader reader(json, path);
  const std::string type = reader.string("peft_type").value_or("LORA");
  if (type != "LORA") {
    reader.fail("peft_type", fmt::format("'{}' is not LORA", weights::visible(type)));
  }
  check_features(reader);
  AdapterConfig config{.rank = reader.required_integer("r", 1, kLargestRank)};
  require_rank(reader, "r", config.rank, max_rank);
  read_other_ranks(reader, max_rank, config);
  config.alpha =
      reader.number("lora_alpha", -kLargestAlpha, kLargestAlpha).value_or(8);  // 8: of PEFT
  config.divides_by_root = reader.boolean("use_rslora").value_or(false);
  read_other_alphas(reader, config);
  return config;
}

double AdapterConfig::scale_of(std::string_view module, int64_t module_rank) const {
  const auto fits = [&](const auto& other) {
    return module == other.first || module.ends_with("." + other.first);
  };
  const auto found = std::ranges::find_if(other_alphas, fits);
  const double own = found == other_alphas.end() ? alpha : found->second;
  const auto size = static_cast<double>(module_rank);
  return own / (divides_by_root ? std::sqrt(size) : size);
}

}  // namespace reprise::lora
