#include "reprise/server/openai/sampling_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <utility>

#include "reprise/base/error.h"
#include "reprise/server/http/api_error.h"

namespace reprise::server {
namespace {

constexpr size_t kAnyCount = std::numeric_limits<size_t>::max();

template <typename Value>
void assign(Value& target, const std::optional<Value>& value) {
  if (value) target = *value;
}

std::vector<std::pair<int32_t, float>> read_logit_bias(const RequestFields& fields) {
  const Json* bias = fields.find("logit_bias");
  if (bias == nullptr) return {};
  if (!bias->is_object()) refuse_type("logit_bias", "an object", *bias);
  if (bias->size() > size_t{kMaxLogitBiases}) {
    throw ApiError(
        400, fmt::format("logit_bias has more than {} entries.", kMaxLogitBiases), "logit_bias");
  }
  std::vector<std::pair<int32_t, float>> found;
  for (const auto& [key, value] : bias->items()) {
    int32_t id = 0;
    const bool is_digits = !key.empty() && std::all_of(key.begin(), key.end(), [](char c) {
      return c >= '0' && c <= '9';
    });
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (!is_digits || error != std::errc() || end != key.data() + key.size()) {
      throw ApiError(400, "Every key of logit_bias must be a token id.", "logit_bias");
    }
    const std::optional<double> number = to_number(value);
    if (!number) refuse_type("logit_bias", "an object of numbers", value);
    // Source: vLLM's server, which does not refuse larger values either.
    constexpr double kMost = sampling::kMaxLogitBias;
    found.emplace_back(id, static_cast<float>(std::clamp(*number, -kMost, kMost)));
  }
  // "7" and "007" are two names of the same token.
  std::vector<std::pair<int32_t, float>> sorted = found;
  std::ranges::sort(sorted);
  const auto twice = std::ranges::adjacent_find(
      sorted, [](const auto& a, const auto& b) { return a.first == b.first; });
  if (twice != sorted.end()) {
    throw ApiError(
        400, fmt::format("logit_bias names the token {} twice.", twice->first), "logit_bias");
  }
  return found;
}

/// \throws ApiError 400 for an empty list, which would allow no token, as in vLLM
std::vector<int32_t> read_allowed_token_ids(const RequestFields& fields) {
  const Json* allowed = fields.find("allowed_token_ids");
  if (allowed != nullptr && allowed->is_array() && allowed->empty()) {
    throw ApiError(400,
                   "allowed_token_ids is empty, so no token could follow; name some, or leave it "
                   "out.",
                   "allowed_token_ids");
  }
  return fields.token_ids("allowed_token_ids", kAnyCount);
}

std::vector<std::string> read_bad_words(const RequestFields& fields) {
  const Json* words = fields.find("bad_words");
  if (words == nullptr) return {};
  if (!words->is_array()) refuse_type("bad_words", "an array of strings", *words);
  return fields.texts("bad_words");
}

void refuse_ids_without_logprobs(const sampling::SamplingParams& params) {
  if (params.logprob_token_ids.empty() || params.logprobs) return;
  throw ApiError(
      400, "when using `logprob_token_ids`, `logprobs` must be set.", "logprob_token_ids");
}

/// In completions `logprobs` is a number. In a chat `logprobs` is a switch and `top_logprobs` the
/// number.
void read_logprobs(const RequestFields& fields, Api api, sampling::SamplingParams& params) {
  params.prompt_logprobs = fields.int32("prompt_logprobs");
  if (params.prompt_logprobs.value_or(0) != 0 && fields.boolean("stream").value_or(false)) {
    throw ApiError(
        400, "`prompt_logprobs` are not available when `stream=True`.", "prompt_logprobs");
  }
  params.logprob_token_ids =
      fields.token_ids("logprob_token_ids", size_t{sampling::kMaxLogprobTokenIds});
  if (api == Api::completions) {
    params.logprobs = fields.int32("logprobs");
    return refuse_ids_without_logprobs(params);
  }
  const bool is_wanted = fields.boolean("logprobs").value_or(false);
  const int num_top = fields.int32("top_logprobs").value_or(0);
  if (num_top != 0 && !is_wanted) {
    throw ApiError(
        400, "when using `top_logprobs`, `logprobs` must be set to true.", "top_logprobs");
  }
  if (is_wanted) params.logprobs = num_top;
  refuse_ids_without_logprobs(params);
}

}  // namespace

void read_sampling_fields(const RequestFields& fields, Api api, sampling::SamplingParams& params) {
  assign(params.temperature, fields.number("temperature"));
  assign(params.top_p, fields.number("top_p"));
  assign(params.top_k, fields.int32("top_k"));
  assign(params.min_p, fields.number("min_p"));
  params.seed = fields.integer("seed");
  if (params.seed == -1) params.seed.reset();  // as in vLLM, -1 means a new seed for each request
  assign(params.repetition_penalty, fields.number("repetition_penalty"));
  assign(params.presence_penalty, fields.number("presence_penalty"));
  assign(params.frequency_penalty, fields.number("frequency_penalty"));
  assign(params.min_tokens, fields.int32("min_tokens"));
  params.stop = fields.texts("stop");
  params.stop_token_ids = fields.token_ids("stop_token_ids", kMaxTokenIdList);
  assign(params.ignore_eos, fields.boolean("ignore_eos"));
  assign(params.include_stop_str_in_output, fields.boolean("include_stop_str_in_output"));
  assign(params.skip_special_tokens, fields.boolean("skip_special_tokens"));
  // None of the supported tokenizers writes such spaces.
  fields.check_boolean("spaces_between_special_tokens", false);
  params.logit_bias = read_logit_bias(fields);
  params.bad_words = read_bad_words(fields);
  params.allowed_token_ids = read_allowed_token_ids(fields);
  read_logprobs(fields, api, params);
}

void expand_logprobs(sampling::SamplingParams& params, int vocab_size, int max_logprobs) {
  if (vocab_size > max_logprobs) return;
  for (std::optional<int>* count : {&params.logprobs, &params.prompt_logprobs}) {
    if (*count == -1) *count = vocab_size;
  }
}

void check_sampling(const sampling::SamplingParams& params,
                    Api api,
                    int vocab_size,
                    int max_logprobs) {
  try {
    sampling::validate(params, vocab_size, max_logprobs);
  } catch (const InvalidArgument& error) {
    // The error message begins with the field: "top_p is 2", "stop[3] is", "logit_bias key is".
    const std::string_view message = error.what();
    const size_t end = message.find_first_of(" [");
    std::string field(message.substr(0, end));
    if (api == Api::chat && field == "logprobs") field = "top_logprobs";
    throw ApiError(400, field + std::string(message.substr(end)), field);
  }
}

}  // namespace reprise::server
