#pragma once

#include "reprise/sampling/sampling_params.h"
#include "reprise/server/openai/request_fields.h"

namespace reprise::server {

inline constexpr int kMaxLogitBiases = 1024;
inline constexpr int kMaxTokenIdList = 1024;  // stop_token_ids

/// Which of the two APIs a body belongs to; they spell log-probabilities differently.
enum class Api : uint8_t { completions, chat };

/// Reads every sampling field but max_tokens into `params`, whose values are what absent and null
/// mean. \throws ApiError 400 with the field at fault
void read_sampling_fields(const RequestFields& fields, Api api, sampling::SamplingParams& params);

/// Ranges of all fields, those of `api` by its names. \throws ApiError 400 with the field at fault
void check_sampling(const sampling::SamplingParams& params,
                    Api api,
                    int vocab_size,
                    int max_logprobs = sampling::kMaxLogprobs);

}  // namespace reprise::server
