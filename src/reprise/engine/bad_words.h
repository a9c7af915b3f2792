#pragma once

#include "reprise/sampling/sampling_params.h"
#include "reprise/tokenizer/tokenizer.h"

namespace reprise::engine {

/// Fills in `params.bad_words_token_ids`: each bad word as it is tokenized at the beginning of a
/// text and, when the first token differs, after a space. Source: vLLM,
/// SamplingParams.update_from_tokenizer.
void tokenize_bad_words(sampling::SamplingParams& params, const tokenizer::Tokenizer& tokenizer);

}  // namespace reprise::engine
