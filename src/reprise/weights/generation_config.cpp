#include "reprise/weights/generation_config.h"

#include <limits>

#include "reprise/weights/config_overrides.h"
#include "reprise/weights/config_reader.h"
#include "reprise/weights/token_limits.h"

namespace reprise::weights {
namespace {

constexpr int64_t kMaxTokenId = std::numeric_limits<int32_t>::max();
constexpr uint64_t kMaxGenerationConfigBytes = uint64_t{1} << 20;
// The smallest step above zero that is not lost in a float.
constexpr double kAboveZero = 1e-6;

}  // namespace

GenerationConfig parse_generation_config(std::string_view json, std::string_view path) {
  const Json document = parse_json_file(json, path, "E_CONFIG");
  const ConfigReader reader(document, path);
  return GenerationConfig{
      .eos_token_ids = reader.integers("eos_token_id", 0, kMaxTokenId, kMaxEosTokens),
      .bos_token_id = reader.integer("bos_token_id", 0, kMaxTokenId),
      .do_sample = reader.boolean("do_sample"),
      .temperature = reader.number("temperature", 0.0, 100.0),
      .top_k = reader.integer("top_k", -1, kMaxTokenId),
      .top_p = reader.number("top_p", kAboveZero, 1.0),
      .min_p = reader.number("min_p", 0.0, 1.0),
      .repetition_penalty = reader.number("repetition_penalty", kAboveZero, 100.0),
      .max_new_tokens = reader.integer("max_new_tokens", 1, kMaxTokenId),
  };
}

GenerationConfig load_generation_config(const ModelDirectory& directory, const Json& overrides) {
  constexpr std::string_view kFile = "generation_config.json";
  const std::string path = directory.path_of(kFile);
  const std::string text =
      directory.contains(kFile) ? directory.read_text(kFile, kMaxGenerationConfigBytes) : "{}";
  return parse_generation_config(override_config(text, path, overrides), path);
}

}  // namespace reprise::weights
