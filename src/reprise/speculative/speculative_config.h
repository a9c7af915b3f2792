#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "reprise/base/json.h"
#include "reprise/speculative/draft_schedule.h"
#include "reprise/speculative/drafter.h"
#include "reprise/speculative/ngram_drafter.h"
#include "reprise/speculative/suffix_index.h"

namespace reprise::speculative {

enum class SpeculativeMethod : uint8_t { ngram, suffix, draft_model, eagle, eagle3, mtp };
[[nodiscard]] std::string_view to_string(SpeculativeMethod method) noexcept;
/// Whether the drafts come from a head that reads the hidden states of the main model.
[[nodiscard]] constexpr bool is_draft_head(SpeculativeMethod method) noexcept {
  return method == SpeculativeMethod::eagle || method == SpeculativeMethod::eagle3 ||
         method == SpeculativeMethod::mtp;
}

/// The largest number of draft tokens. Each draft needs a row of logits per request, so more drafts
/// would cost much memory, and texts that can be predicted so far ahead are rare.
inline constexpr int32_t kMostSpeculativeTokens = 64;
/// The key whose value is read as a DraftSchedule.
inline constexpr const char* kScheduleKey = "num_speculative_tokens_per_batch_size";
/// The longest n-gram to look up.
inline constexpr int32_t kLongestNgram = 256;
/// The largest number of matched and proposed tokens together, for method suffix.
inline constexpr int32_t kDeepestSuffixTree = 256;

/// The model or head that makes the drafts, for the methods draft_model, eagle, eagle3 and mtp.
struct DraftModelOptions {
  // As EngineArgs::model; empty for mtp, whose head is in the main model's files.
  std::filesystem::path model;
  std::optional<int32_t>
      max_model_len;                  // longer requests get no drafts; default: the model's limit
  std::string quantization = "none";  // as EngineArgs::quantization
  /// Whether the draft model runs without graphs. Unset: as the main model does.
  std::optional<bool> enforce_eager;
  DraftSampleMethod sample_method = DraftSampleMethod::greedy;

  friend bool operator==(const DraftModelOptions&, const DraftModelOptions&) = default;
};

/// --speculative-config, checked.
struct SpeculativeConfig {
  SpeculativeMethod method = SpeculativeMethod::ngram;
  int32_t num_speculative_tokens = 0;  // draft tokens per request and step, at least 1
  // Smaller numbers of draft tokens, by the number of running requests.
  DraftSchedule schedule;
  NgramLookup lookup;             // of method ngram
  SuffixOptions suffix;           // of method suffix
  DraftModelOptions draft_model;  // of the methods with a model

  friend bool operator==(const SpeculativeConfig&, const SpeculativeConfig&) = default;
};

/// Reads the object of --speculative-config. Keys and defaults are vLLM's. The method may be left
/// out if there is a `model`. If only one of prompt_lookup_min and prompt_lookup_max is given, it
/// is both; if none is given, both are 5. Method suffix needs no num_speculative_tokens: the
/// default is suffix_decoding_max_tree_depth.
/// \throws InvalidArgument that names an unknown or unsupported key or method, a key of another
/// method, a missing key, or a value outside of its range
[[nodiscard]] SpeculativeConfig parse_speculative_config(const Json& json);

}  // namespace reprise::speculative
