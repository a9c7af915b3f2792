#pragma once

#include <cstdint>
#include <span>

#include "reprise/sampling/sampling_params.h"

namespace reprise::engine {

/// Refuses parameters that allow no first token: allowed_token_ids of which min_tokens and
/// bad_words forbid all. \throws InvalidArgument
void check_some_token_is_allowed(const sampling::SamplingParams& params,
                                 std::span<const int32_t> eos_token_ids);

}  // namespace reprise::engine
