#include "reprise/server/openai/answer_size.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "reprise/server/http/api_error.h"

namespace reprise::server {
namespace {

/// How many log-probabilities the answer has for each token of a prompt.
int64_t logprobs_per_prompt_token(const GenerationRequest& request) {
  const int64_t per_token = int64_t{request.params.prompt_logprobs.value_or(0)} + 1;
  const bool are_echoed = request.echo && request.params.logprobs.has_value();
  return (request.return_prompt_logprobs ? per_token : 0) + (are_echoed ? per_token : 0);
}

int64_t logprobs_per_output_token(const GenerationRequest& request) {
  if (!request.params.logprobs) return 0;
  const auto num_ids = static_cast<int64_t>(request.params.logprob_token_ids.size());
  return std::max<int64_t>(*request.params.logprobs, num_ids) + 1;
}

}  // namespace

int64_t answer_bytes(const GenerationRequest& request,
                     std::span<const EncodedPrompt> prompts,
                     int64_t max_model_len) {
  const int64_t max_tokens = request.params.max_tokens.value_or(std::numeric_limits<int>::max());
  int64_t num_logprobs = 0;
  for (const EncodedPrompt& prompt : prompts) {
    const auto num_tokens = static_cast<int64_t>(prompt.token_ids.size());
    num_logprobs += num_tokens * logprobs_per_prompt_token(request);
    if (request.num_choices() == 1) continue;
    num_logprobs += std::clamp<int64_t>(max_model_len - num_tokens, 0, max_tokens) *
                    logprobs_per_output_token(request);
  }
  return num_logprobs * request.n * kBytesPerLogprob;
}

void check_answer_size(const GenerationRequest& request,
                       std::span<const EncodedPrompt> prompts,
                       int64_t max_model_len,
                       int64_t max_answer_bytes) {
  const char* const field = request.return_prompt_logprobs ? "prompt_logprobs" : "logprobs";
  const int64_t bytes = answer_bytes(request, prompts, max_model_len);
  if (bytes > max_answer_bytes) {
    throw ApiError(
        400,
        fmt::format(
            "The log-probabilities of this answer would have up to {} bytes, at {} bytes for each; "
            "at most {} are written (--max-answer-bytes). Ask for fewer prompts, answers, "
            "tokens or log-probabilities per token.",
            bytes,
            kBytesPerLogprob,
            max_answer_bytes),
        field);
  }
  if (!request.stream) return;
  size_t longest = 0;
  for (const EncodedPrompt& prompt : prompts) longest = std::max(longest, prompt.token_ids.size());
  const int64_t event_bytes =
      static_cast<int64_t>(longest) * logprobs_per_prompt_token(request) * kBytesPerLogprob;
  if (event_bytes > kMaxEventBytes) {
    throw ApiError(
        400,
        fmt::format("The log-probabilities of the prompt would have up to {} bytes in one event of "
                    "the stream; an event has at most {}. Ask for an answer that is not a stream.",
                    event_bytes,
                    kMaxEventBytes),
        field);
  }
}

}  // namespace reprise::server
