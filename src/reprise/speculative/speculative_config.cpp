#include "reprise/speculative/speculative_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "reprise/base/error.h"
#include "reprise/base/nearest_name.h"

namespace reprise::speculative {
namespace {

constexpr const char* kOption = "speculative_config";

constexpr std::array<std::string_view, 4> kKeys = {
    "method", "num_speculative_tokens", "prompt_lookup_max", "prompt_lookup_min"};
/// Keys of vLLM that belong to methods or features that this engine does not have.
constexpr std::array<std::string_view, 24> kKeysOfVllm = {"attention_backend",
                                                          "code_revision",
                                                          "disable_by_batch_size",
                                                          "disable_padded_drafter_batch",
                                                          "draft_load_config",
                                                          "draft_sample_method",
                                                          "draft_tensor_parallel_size",
                                                          "enforce_eager",
                                                          "max_model_len",
                                                          "model",
                                                          "moe_backend",
                                                          "num_speculative_tokens_per_batch_size",
                                                          "parallel_drafting",
                                                          "quantization",
                                                          "rejection_sample_method",
                                                          "revision",
                                                          "speculative_token_tree",
                                                          "suffix_decoding_max_cached_requests",
                                                          "suffix_decoding_max_spec_factor",
                                                          "suffix_decoding_max_tree_depth",
                                                          "suffix_decoding_min_token_prob",
                                                          "synthetic_acceptance_rates",
                                                          "tensor_parallel_size",
                                                          "use_heterogeneous_vocab"};

void check_keys(const Json& json) {
  for (const auto& [key, value] : json.items()) {
    if (std::ranges::find(kKeys, key) != kKeys.end()) continue;
    if (std::ranges::find(kKeysOfVllm, key) != kKeysOfVllm.end()) {
      throw InvalidArgument(
          fmt::format("{}: '{}' is not supported: the only method is ngram, which takes {}",
                      kOption,
                      key,
                      fmt::join(kKeys, ", ")));
    }
    throw InvalidArgument(fmt::format("{}: unknown key '{}'; expected {}{}",
                                      kOption,
                                      key,
                                      fmt::join(kKeys, ", "),
                                      did_you_mean(key, kKeys)));
  }
}

SpeculativeMethod parse_method(const Json& json) {
  const auto found = json.find("method");
  if (found == json.end()) {
    throw InvalidArgument(
        fmt::format("{}: 'method' is missing; the only supported method is ngram", kOption));
  }
  if (found->is_string() && found->get_ref<const std::string&>() == "ngram") {
    return SpeculativeMethod::ngram;
  }
  throw InvalidArgument(
      fmt::format("{}: method {} is not supported; the only supported method is ngram",
                  kOption,
                  found->dump(-1, ' ', false, Json::error_handler_t::replace)));
}

std::optional<int32_t> parse_count(const Json& json, const char* key, int32_t most) {
  const auto found = json.find(key);
  if (found == json.end() || found->is_null()) return std::nullopt;
  const bool is_count = found->is_number_integer() && *found >= 1 && *found <= most;
  if (!is_count) {
    throw InvalidArgument(fmt::format("{}: {} is {}, expected an integer from 1 to {}",
                                      kOption,
                                      key,
                                      found->dump(-1, ' ', false, Json::error_handler_t::replace),
                                      most));
  }
  return found->get<int32_t>();
}

NgramLookup parse_lookup(const Json& json) {
  const std::optional<int32_t> min = parse_count(json, "prompt_lookup_min", kLongestNgram);
  const std::optional<int32_t> max = parse_count(json, "prompt_lookup_max", kLongestNgram);
  const NgramLookup defaults;
  const NgramLookup lookup{
      .prompt_lookup_min = min.value_or(max.value_or(defaults.prompt_lookup_min)),
      .prompt_lookup_max = max.value_or(min.value_or(defaults.prompt_lookup_max))};
  if (lookup.prompt_lookup_min > lookup.prompt_lookup_max) {
    throw InvalidArgument(fmt::format(
        "{}: prompt_lookup_min {} is larger than prompt_lookup_max {}; swap them or raise the "
        "second",
        kOption,
        lookup.prompt_lookup_min,
        lookup.prompt_lookup_max));
  }
  return lookup;
}

}  // namespace

std::string_view to_string(SpeculativeMethod method) noexcept {
  switch (method) {
    case SpeculativeMethod::ngram:
      return "ngram";
  }
  return "?";
}

SpeculativeConfig parse_speculative_config(const Json& json) {
  if (!json.is_object()) {
    throw InvalidArgument(
        fmt::format("{}: expected an object such as {}, got {}",
                    kOption,
                    R"({"method": "ngram", "num_speculative_tokens": 4})",
                    json.dump(-1, ' ', false, Json::error_handler_t::replace).substr(0, 60)));
  }
  check_keys(json);
  SpeculativeConfig config{.method = parse_method(json)};
  const std::optional<int32_t> count =
      parse_count(json, "num_speculative_tokens", kMostSpeculativeTokens);
  if (!count) {
    throw InvalidArgument(fmt::format(
        "{}: 'num_speculative_tokens' is missing; give the number of draft tokens per step, 1 to "
        "{}",
        kOption,
        kMostSpeculativeTokens));
  }
  config.num_speculative_tokens = *count;
  config.lookup = parse_lookup(json);
  return config;
}

}  // namespace reprise::speculative
