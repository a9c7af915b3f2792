#pragma once

#include <cstdint>

#include "reprise/structured_output/token_bytes.h"

namespace reprise::structured_output {

/// Makes a byte-level vocabulary of any size, for tests and benchmarks without a large model. It
/// has all bytes, then merged pairs of earlier tokens, over letters of several scripts, digits,
/// blanks and JSON's punctuation. Tokens therefore begin, end and split anywhere, also inside of
/// characters. The same `seed` gives the same tokens. The last id adds no text and ends the text.
/// `num_tokens` > 512.
[[nodiscard]] VocabularyBytes synthetic_vocabulary(int32_t num_tokens, uint64_t seed);

}  // namespace reprise::structured_output
