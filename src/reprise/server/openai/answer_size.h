#pragma once

#include <cstdint>
#include <span>

#include "reprise/server/openai/generation_request.h"
#include "reprise/server/openai/prompt_encoder.h"

namespace reprise::server {

/// The size that one log-probability is estimated with: its token, its number, its rank, and the
/// JSON around them.
inline constexpr int64_t kBytesPerLogprob = 100;
/// One event of a stream may have this size, because a client that leaves more unread is
/// disconnected.
inline constexpr int64_t kMaxEventBytes = int64_t{1} << 20;

/// An upper estimate of the bytes of the log-probabilities in the answer; text and token ids are
/// not counted. Output counts only when a request asks for several answers: the time to generate a
/// single answer already bounds its size.
[[nodiscard]] int64_t answer_bytes(const GenerationRequest& request,
                                   std::span<const EncodedPrompt> prompts,
                                   int64_t max_model_len);

/// \throws ApiError 400 naming the field, the limit and its option, when the answer would be too
/// large
void check_answer_size(const GenerationRequest& request,
                       std::span<const EncodedPrompt> prompts,
                       int64_t max_model_len,
                       int64_t max_answer_bytes);

}  // namespace reprise::server
