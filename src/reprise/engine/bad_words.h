#pragma once

#include "reprise/sampling/sampling_params.h"
#include "reprise/tokenizer/tokenizer.h"

namespace reprise::engine {

/// Fills in `params.bad_words_token_ids`. A bad word is tokenized as the first word of a text and
/// also after a space, because both forms may have different tokens; the second form counts only if
/// its first token differs. Source: vLLM, SamplingParams.update_from_tokenizer.
void tokenize_bad_words(sampling::SamplingParams& params, const tokenizer::Tokenizer& tokenizer);

}  // namespace reprise::engine
