#include "reprise/speculative/speculative_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "reprise/base/error.h"
#include "reprise/base/nearest_name.h"

namespace reprise::speculative {
namespace {

constexpr const char* kOption = "speculative_config";

using enum SpeculativeMethod;
constexpr auto kMethods =
    std::to_array<SpeculativeMethod>({ngram, suffix, draft_model, eagle, eagle3, mtp});

/// A set of methods, as bits.
constexpr uint32_t methods(std::initializer_list<SpeculativeMethod> list) {
  uint32_t bits = 0;
  for (const SpeculativeMethod method : list) bits |= 1U << static_cast<uint32_t>(method);
  return bits;
}
constexpr uint32_t kEvery = UINT32_MAX;
constexpr uint32_t kWithFolder = methods({draft_model, eagle, eagle3});
constexpr uint32_t kWithModel = methods({draft_model, eagle, eagle3, mtp});

/// A key of vLLM, and the methods for which it is valid.
struct MethodKey {
  std::string_view key;
  uint32_t methods = kEvery;

  [[nodiscard]] constexpr bool belongs_to(SpeculativeMethod method) const {
    return (methods >> static_cast<uint32_t>(method) & 1U) != 0;
  }
};
constexpr auto kKeys = std::to_array<MethodKey>({
    {"method", kEvery},
    {"num_speculative_tokens", kEvery},
    {kScheduleKey, kEvery},
    {"prompt_lookup_max", methods({ngram})},
    {"prompt_lookup_min", methods({ngram})},
    {"suffix_decoding_max_tree_depth", methods({suffix})},
    {"suffix_decoding_max_cached_requests", methods({suffix})},
    {"suffix_decoding_max_spec_factor", methods({suffix})},
    {"suffix_decoding_min_token_prob", methods({suffix})},
    {"model", kWithFolder},
    {"max_model_len", kWithModel},
    {"quantization", kWithFolder},
    {"enforce_eager", kWithModel},
    {"draft_sample_method", kWithModel},
});
/// Keys of vLLM for methods or features that this engine does not have.
constexpr auto kKeysOfVllm = std::to_array<std::string_view>({"attention_backend",
                                                              "code_revision",
                                                              "disable_by_batch_size",
                                                              "disable_padded_drafter_batch",
                                                              "draft_load_config",
                                                              "draft_tensor_parallel_size",
                                                              "enable_adaptive_verification",
                                                              "kv_cache_dtype",
                                                              "moe_backend",
                                                              "parallel_drafting",
                                                              "rejection_sample_method",
                                                              "revision",
                                                              "speculative_token_tree",
                                                              "synthetic_acceptance_length",
                                                              "synthetic_acceptance_rates",
                                                              "tensor_parallel_size",
                                                              "use_heterogeneous_vocab"});

/// vLLM's older names of mtp, one for each family.
constexpr auto kMtpNames = std::to_array<std::string_view>({"deepseek_mtp",
                                                            "ernie_mtp",
                                                            "exaone_moe_mtp",
                                                            "glm4_moe_lite_mtp",
                                                            "glm4_moe_mtp",
                                                            "longcat_flash_mtp",
                                                            "mimo_mtp",
                                                            "nemotron_h_mtp",
                                                            "pangu_ultra_moe_mtp",
                                                            "qwen3_5_mtp",
                                                            "qwen3_next_mtp",
                                                            "step3p5_mtp"});

std::string as_text(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace).substr(0, 60);
}

std::vector<std::string_view> keys_of(SpeculativeMethod method) {
  std::vector<std::string_view> keys;
  for (const MethodKey& known : kKeys) {
    if (known.belongs_to(method)) keys.push_back(known.key);
  }
  return keys;
}

std::string method_names(const MethodKey& of = {}) {
  std::vector<std::string_view> names;
  for (const SpeculativeMethod method : kMethods) {
    if (of.belongs_to(method)) names.push_back(to_string(method));
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

void check_key(const std::string& key, SpeculativeMethod method) {
  const std::vector<std::string_view> keys = keys_of(method);
  if (std::ranges::find(keys, key) != keys.end()) return;
  const auto other = std::ranges::find(kKeys, key, &MethodKey::key);
  if (other != kKeys.end()) {
    throw InvalidArgument(fmt::format("{}: '{}' belongs to method {}; method {} takes {}",
                                      kOption,
                                      key,
                                      method_names(*other),
                                      to_string(method),
                                      fmt::join(keys, ", ")));
  }
  if (std::ranges::find(kKeysOfVllm, key) != kKeysOfVllm.end()) {
    throw InvalidArgument(fmt::format("{}: '{}' is not supported; method {} takes {}",
                                      kOption,
                                      key,
                                      to_string(method),
                                      fmt::join(keys, ", ")));
  }
  throw InvalidArgument(fmt::format("{}: unknown key '{}'; method {} takes {}{}",
                                    kOption,
                                    key,
                                    to_string(method),
                                    fmt::join(keys, ", "),
                                    did_you_mean(key, keys)));
}

/// The member, unless it is absent or null.
const Json* find_member(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found == json.end() || found->is_null() ? nullptr : &*found;
}

SpeculativeMethod parse_method(const Json& json) {
  const Json* const name = find_member(json, "method");
  if (name == nullptr) {
    if (find_member(json, "model") != nullptr) return SpeculativeMethod::draft_model;
    throw InvalidArgument(
        fmt::format("{}: 'method' is missing; expected one of {}", kOption, method_names()));
  }
  for (const SpeculativeMethod method : kMethods) {
    if (*name == to_string(method)) return method;
  }
  const bool is_mtp =
      std::ranges::any_of(kMtpNames, [&](std::string_view older) { return *name == older; });
  if (is_mtp) return SpeculativeMethod::mtp;
  throw InvalidArgument(fmt::format("{}: method {} is not supported; expected one of {}",
                                    kOption,
                                    as_text(*name),
                                    method_names()));
}

[[noreturn]] void refuse(const char* key, const Json& value, std::string_view expected) {
  throw InvalidArgument(
      fmt::format("{}: {} is {}, expected {}", kOption, key, as_text(value), expected));
}

std::optional<int32_t> parse_count(const Json& json, const char* key, int32_t most) {
  const Json* const value = find_member(json, key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number_integer() || *value < 1 || *value > most) {
    refuse(key, *value, fmt::format("an integer from 1 to {}", most));
  }
  return value->get<int32_t>();
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

/// A number from `low` to `high`.
double parse_number(const Json& json, const char* key, double unset, double low, double high) {
  const Json* const value = find_member(json, key);
  if (value == nullptr) return unset;
  // Not a number is in no range.
  const bool is_in_range =
      value->is_number() && value->get<double>() >= low && value->get<double>() <= high;
  if (!is_in_range) refuse(key, *value, fmt::format("a number from {} to {}", low, high));
  return value->get<double>();
}

SuffixOptions parse_suffix(const Json& json) {
  SuffixOptions options;
  options.max_tree_depth = parse_count(json, "suffix_decoding_max_tree_depth", kDeepestSuffixTree)
                               .value_or(options.max_tree_depth);
  const Json* const cached = find_member(json, "suffix_decoding_max_cached_requests");
  if (cached != nullptr && *cached == 0) {
    options.max_cached_requests = 0;
  } else {
    options.max_cached_requests =
        parse_count(json, "suffix_decoding_max_cached_requests", INT32_MAX)
            .value_or(options.max_cached_requests);
  }
  options.max_spec_factor = parse_number(
      json, "suffix_decoding_max_spec_factor", options.max_spec_factor, 0, kMostSpeculativeTokens);
  options.min_token_prob =
      parse_number(json, "suffix_decoding_min_token_prob", options.min_token_prob, 0, 1);
  return options;
}

std::string parse_draft_folder(const Json& json, SpeculativeMethod method) {
  const Json* const model = find_member(json, "model");
  if (model == nullptr || !model->is_string() || model->get_ref<const std::string&>().empty()) {
    throw InvalidArgument(fmt::format("{}: method {} needs 'model', the folder of the {}",
                                      kOption,
                                      to_string(method),
                                      is_draft_head(method) ? "draft head" : "draft model"));
  }
  return model->get<std::string>();
}

DraftModelOptions parse_draft_model(const Json& json, SpeculativeMethod method) {
  DraftModelOptions options;
  if (method != mtp) options.model = parse_draft_folder(json, method);
  options.max_model_len = parse_count(json, "max_model_len", INT32_MAX);
  if (const Json* const value = find_member(json, "quantization")) {
    if (!value->is_string()) refuse("quantization", *value, "a text such as \"int8\"");
    options.quantization = value->get<std::string>();
  }
  if (const Json* const value = find_member(json, "enforce_eager")) {
    if (!value->is_boolean()) refuse("enforce_eager", *value, "true or false");
    options.enforce_eager = value->get<bool>();
  }
  if (const Json* const value = find_member(json, "draft_sample_method")) {
    const bool is_probabilistic = *value == "probabilistic";
    if (!is_probabilistic && *value != "greedy") {
      refuse("draft_sample_method", *value, "\"greedy\" or \"probabilistic\"");
    }
    if (is_probabilistic && is_draft_head(method)) {
      refuse("draft_sample_method",
             *value,
             fmt::format("\"greedy\": method {} has no other", to_string(method)));
    }
    if (is_probabilistic) options.sample_method = DraftSampleMethod::probabilistic;
  }
  return options;
}

int32_t parse_num_speculative_tokens(const Json& json, const SpeculativeConfig& config) {
  const std::optional<int32_t> count =
      parse_count(json, "num_speculative_tokens", kMostSpeculativeTokens);
  if (count) return *count;
  if (config.method == SpeculativeMethod::suffix) {
    return std::min(config.suffix.max_tree_depth, kMostSpeculativeTokens);
  }
  throw InvalidArgument(fmt::format(
      "{}: 'num_speculative_tokens' is missing; give the number of draft tokens per step, 1 to "
      "{}",
      kOption,
      kMostSpeculativeTokens));
}

DraftRange parse_range(const Json& row, int32_t most) {
  const bool has_integers =
      row.is_array() && row.size() == 3 && std::ranges::all_of(row, [](const Json& number) {
        return number.is_number_integer() && number >= 0 && number <= INT32_MAX;
      });
  if (!has_integers) {
    refuse(
        kScheduleKey, row, "rows of three integers: [first batch size, last batch size, drafts]");
  }
  const DraftRange range{
      .first = row[0].get<int32_t>(), .last = row[1].get<int32_t>(), .num_drafts = row[2]};
  if (range.first < 1 || range.last < range.first) {
    refuse(kScheduleKey,
           row,
           "a range of batch sizes that begins at 1 or later and does not end before");
  }
  if (range.num_drafts > most) {
    refuse(kScheduleKey, row, fmt::format("at most num_speculative_tokens = {} drafts", most));
  }
  return range;
}

DraftSchedule parse_schedule(const Json& json, int32_t most) {
  const Json* const rows = find_member(json, kScheduleKey);
  if (rows == nullptr) return {};
  if (!rows->is_array() || rows->empty()) {
    refuse(kScheduleKey, *rows, "a list of rows such as [[1, 32, 4], [33, 128, 1]]");
  }
  DraftSchedule schedule;
  for (const Json& row : *rows) schedule.push_back(parse_range(row, most));
  std::ranges::sort(schedule, {}, &DraftRange::first);
  const auto overlaps = [](const DraftRange& a, const DraftRange& b) { return b.first <= a.last; };
  if (std::ranges::adjacent_find(schedule, overlaps) != schedule.end()) {
    refuse(kScheduleKey, *rows, "ranges of batch sizes that do not overlap");
  }
  if (schedule.front().first != 1) refuse(kScheduleKey, *rows, "a first range that begins at 1");
  return schedule;
}

}  // namespace

std::string_view to_string(SpeculativeMethod method) noexcept {
  switch (method) {
    case SpeculativeMethod::ngram:
      return "ngram";
    case SpeculativeMethod::suffix:
      return "suffix";
    case SpeculativeMethod::draft_model:
      return "draft_model";
    case SpeculativeMethod::eagle:
      return "eagle";
    case SpeculativeMethod::eagle3:
      return "eagle3";
    case SpeculativeMethod::mtp:
      return "mtp";
  }
  return "?";
}

SpeculativeConfig parse_speculative_config(const Json& json) {
  if (!json.is_object()) {
    throw InvalidArgument(fmt::format("{}: expected an object such as {}, got {}",
                                      kOption,
                                      R"({"method": "ngram", "num_speculative_tokens": 4})",
                                      as_text(json)));
  }
  SpeculativeConfig config{.method = parse_method(json)};
  for (const auto& [key, value] : json.items()) check_key(key, config.method);
  switch (config.method) {
    case SpeculativeMethod::ngram:
      config.lookup = parse_lookup(json);
      break;
    case SpeculativeMethod::suffix:
      config.suffix = parse_suffix(json);
      break;
    case SpeculativeMethod::draft_model:
    case SpeculativeMethod::eagle:
    case SpeculativeMethod::eagle3:
    case SpeculativeMethod::mtp:
      config.draft_model = parse_draft_model(json, config.method);
      break;
  }
  config.num_speculative_tokens = parse_num_speculative_tokens(json, config);
  config.schedule = parse_schedule(json, config.num_speculative_tokens);
  return config;
}

}  // namespace reprise::speculative
