#include "reprise/sampling/sampling_params.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <span>
#include <string_view>

#include "reprise/base/error.h"

namespace reprise::sampling {
namespace {

template <typename Value>
[[noreturn]] void refuse(std::string_view field, const Value& value, std::string_view expected) {
  throw InvalidArgument(fmt::format("{} is {}, expected {}", field, value, expected));
}

/// A NaN fails this form of the comparison.
void require_in(std::string_view field, float value, float low, float high) {
  if (!(value >= low && value <= high)) {
    refuse(field, value, fmt::format("a number in [{}, {}]", low, high));
  }
}

void require_above_zero(std::string_view field, float value, float high) {
  if (!(value > 0.0F && value <= high)) {
    refuse(field, value, fmt::format("a number in (0, {:.6g}]", high));
  }
}

void require_count(std::string_view field, const std::optional<int>& count, int most) {
  if (count && (*count < 0 || *count > most)) {
    refuse(field, *count, fmt::format("a number in [0, {}]", most));
  }
}

void require_in_vocabulary(std::string_view field, std::span<const int32_t> ids, int vocab_size) {
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || ids[i] >= vocab_size) {
      refuse(fmt::format("{}[{}]", field, i),
             ids[i],
             fmt::format("a token id in [0, {}]", vocab_size - 1));
    }
  }
}

void validate_lengths(const SamplingParams& params) {
  if (params.max_tokens && *params.max_tokens < 1) {
    refuse("max_tokens", *params.max_tokens, "at least 1");
  }
  if (params.min_tokens < 0) refuse("min_tokens", params.min_tokens, "at least 0");
  if (params.max_tokens && params.min_tokens > *params.max_tokens) {
    refuse("min_tokens",
           params.min_tokens,
           fmt::format("at most max_tokens = {}", *params.max_tokens));
  }
}

void validate_strings(std::string_view field, std::span<const std::string> strings, int max_count) {
  if (strings.size() > static_cast<size_t>(max_count)) {
    refuse(field, fmt::format("{} strings", strings.size()), fmt::format("at most {}", max_count));
  }
  for (size_t i = 0; i < strings.size(); ++i) {
    const size_t num_bytes = strings[i].size();
    if (num_bytes == 0 || num_bytes > size_t{kMaxStopStringBytes}) {
      refuse(fmt::format("{}[{}]", field, i),
             fmt::format("{} bytes long", num_bytes),
             fmt::format("1..{} bytes", kMaxStopStringBytes));
    }
  }
}

void validate_token_ids(const SamplingParams& params, int vocab_size) {
  require_in_vocabulary("stop_token_ids", params.stop_token_ids, vocab_size);
  require_in_vocabulary("allowed_token_ids", params.allowed_token_ids, vocab_size);
  if (params.logprob_token_ids.size() > size_t{kMaxLogprobTokenIds}) {
    refuse("logprob_token_ids",
           fmt::format("{} token ids", params.logprob_token_ids.size()),
           fmt::format("at most {}", kMaxLogprobTokenIds));
  }
  require_in_vocabulary("logprob_token_ids", params.logprob_token_ids, vocab_size);
  for (const auto& [token_id, bias] : params.logit_bias) {
    require_in_vocabulary("logit_bias key", std::span(&token_id, 1), vocab_size);
    require_in(fmt::format("logit_bias[{}]", token_id), bias, -kMaxLogitBias, kMaxLogitBias);
  }
  for (const std::vector<int32_t>& ids : params.bad_words_token_ids) {
    require_in_vocabulary("bad_words", ids, vocab_size);
  }
}

}  // namespace

void validate(const SamplingParams& params, int vocab_size, int max_logprobs) {
  require_in("temperature", params.temperature, 0.0F, kMaxTemperature);
  require_above_zero("top_p", params.top_p, 1.0F);
  if (params.top_k < -1) refuse("top_k", params.top_k, "-1 or 0 (off) or a positive number");
  require_in("min_p", params.min_p, 0.0F, 1.0F);
  require_above_zero(
      "repetition_penalty", params.repetition_penalty, std::numeric_limits<float>::max());
  require_in("presence_penalty", params.presence_penalty, -kMaxPenalty, kMaxPenalty);
  require_in("frequency_penalty", params.frequency_penalty, -kMaxPenalty, kMaxPenalty);
  require_count("logprobs", params.logprobs, max_logprobs);
  require_count("prompt_logprobs", params.prompt_logprobs, max_logprobs);
  validate_lengths(params);
  validate_strings("stop", params.stop, kMaxStopStrings);
  validate_strings("bad_words", params.bad_words, kMaxBadWords);
  validate_token_ids(params, vocab_size);
}

}  // namespace reprise::sampling
