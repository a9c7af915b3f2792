#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/base/json.h"
#include "reprise/weights/files/model_directory.h"

namespace reprise::weights {

/// Sampling defaults a model's authors recommend. Absent means "not recommended", never a value.
struct GenerationConfig {
  std::vector<int64_t> eos_token_ids;
  std::optional<int64_t> bos_token_id;
  std::optional<bool> do_sample;
  std::optional<double> temperature;         // >= 0
  std::optional<int64_t> top_k;              // -1 and 0 mean off
  std::optional<double> top_p;               // (0, 1]
  std::optional<double> min_p;               // [0, 1]
  std::optional<double> repetition_penalty;  // > 0
  std::optional<int64_t> max_new_tokens;     // >= 1
  /// The other members that change an answer in Transformers, as "no_repeat_ngram_size 3"; members
  /// whose value changes nothing are left out.
  std::vector<std::string> ignored;

  bool operator==(const GenerationConfig&) const = default;
};

/// Reads the text of a generation_config.json; `path` only names it in errors.
/// \throws FileError E_CONFIG with the JSON member.
[[nodiscard]] GenerationConfig parse_generation_config(std::string_view json,
                                                       std::string_view path);

/// Reads a folder's recommendations. A folder without generation_config.json has only those of
/// `overrides` (an object, see override_config). `ignored` also has members of config.json, because
/// older folders have them there. \throws FileError E_PATH, E_TOO_LARGE, E_CONFIG.
[[nodiscard]] GenerationConfig load_generation_config(const ModelDirectory& directory,
                                                      const Json& overrides = Json::object());

}  // namespace reprise::weights
