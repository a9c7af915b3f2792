#include "reprise/weights/config/generation_config.h"

#include <fmt/format.h>

#include <array>
#include <limits>

#include "reprise/weights/config/config_overrides.h"
#include "reprise/weights/config/token_limits.h"
#include "reprise/weights/files/config_reader.h"
#include "reprise/weights/tensor_spec.h"

namespace reprise::weights {
namespace {

constexpr int64_t kMaxTokenId = std::numeric_limits<int32_t>::max();
constexpr uint64_t kMaxGenerationConfigBytes = uint64_t{1} << 20;
constexpr size_t kMaxShownBytes = 40;  // of a member's value in a warning
// The smallest number that counts as "more than 0", for ranges that need a smallest number.
constexpr double kAboveZero = 1e-6;

// Members that Transformers applies and this engine does not, each with the value that changes
// nothing. Members that only matter with beam search are left out, because num_beams is in the
// list. Source: transformers 5, GenerationConfig.
struct IgnoredMember {
  std::string_view name;
  double neutral = 0;
};
constexpr std::array<IgnoredMember, 21> kIgnoredMembers = {{
    {"bad_words_ids"},
    {"begin_suppress_tokens"},
    {"diversity_penalty"},
    {"encoder_no_repeat_ngram_size"},
    {"encoder_repetition_penalty", 1},
    {"epsilon_cutoff"},
    {"eta_cutoff"},
    {"exponential_decay_length_penalty"},
    {"forced_eos_token_id", -1},
    {"guidance_scale", 1},
    {"min_length"},
    {"min_new_tokens"},
    {"no_repeat_ngram_size"},
    {"num_beam_groups", 1},
    {"num_beams", 1},
    {"penalty_alpha"},
    {"sequence_bias"},
    {"stop_strings"},
    {"suppress_tokens"},
    {"top_h"},
    {"typical_p", 1},
}};

std::vector<std::string> ignored_members(const Json& document) {
  const ConfigReader reader(document, "");
  std::vector<std::string> ignored;
  for (const IgnoredMember& member : kIgnoredMembers) {
    const Json* value = reader.find(member.name);
    if (value == nullptr) continue;
    const bool is_neutral = value->is_number() ? value->get<double>() == member.neutral
                                               : value->is_null() || value->empty();
    if (is_neutral) continue;
    std::string text = value->dump();
    if (text.size() > kMaxShownBytes) text = "...";
    ignored.push_back(fmt::format("{} {}", member.name, visible(text)));
  }
  return ignored;
}

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
      .ignored = ignored_members(document),
  };
}

GenerationConfig load_generation_config(const ModelDirectory& directory, const Json& overrides) {
  constexpr std::string_view kFile = "generation_config.json";
  const std::string path = directory.path_of(kFile);
  const std::string text =
      directory.contains(kFile) ? directory.read_text(kFile, kMaxGenerationConfigBytes) : "{}";
  GenerationConfig config = parse_generation_config(override_config(text, path, overrides), path);
  constexpr std::string_view kOlderFile = "config.json";
  if (!directory.contains(kFile) && directory.contains(kOlderFile)) {
    config.ignored =
        ignored_members(parse_json_file(directory.read_text(kOlderFile, kMaxGenerationConfigBytes),
                                        directory.path_of(kOlderFile),
                                        "E_CONFIG"));
  }
  return config;
}

}  // namespace reprise::weights
