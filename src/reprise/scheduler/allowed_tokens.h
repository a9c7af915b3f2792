#pragma once

#include <cstdint>
#include <span>

#include "reprise/sampling/sampling_params.h"

namespace reprise::scheduler {

/// Refuses parameters that allow no first token, that is, when min_tokens and bad_words together
/// forbid each of the allowed_token_ids. \throws InvalidArgument
void check_some_token_is_allowed(const sampling::SamplingParams& params,
                                 std::span<const int32_t> eos_token_ids);

}  // namespace reprise::scheduler
