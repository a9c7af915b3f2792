#pragma once

#include "reprise/sampling/sampling_params.h"
#include "reprise/server/openai/request_fields.h"

namespace reprise::server {

inline constexpr int kMaxLogitBiases = 1024;
inline constexpr int kMaxTokenIdList = 1024;  // limit on the length of stop_token_ids

/// The API that a body belongs to; the two APIs spell log-probabilities differently.
enum class Api : uint8_t { completions, chat };

/// Reads every sampling field except max_tokens into `params`. On entry `params` holds the values
/// of fields that are absent or null. \throws ApiError 400 with the field at fault
void read_sampling_fields(const RequestFields& fields, Api api, sampling::SamplingParams& params);

/// Replaces -1 log-probabilities by those of the whole vocabulary, as in vLLM. If `max_logprobs`
/// does not allow so many, -1 stays, so that check_sampling() refuses the number that was sent.
void expand_logprobs(sampling::SamplingParams& params, int vocab_size, int max_logprobs);

/// Checks the ranges of all fields, under the names of `api`. \throws ApiError 400 with the field
/// at fault
void check_sampling(const sampling::SamplingParams& params,
                    Api api,
                    int vocab_size,
                    int max_logprobs = sampling::kMaxLogprobs);

}  // namespace reprise::server
