#pragma once

#include <cstdint>

#include "reprise/structured_output/token_bytes.h"

namespace reprise::structured_output {

/// A byte-level vocabulary of any size, for tests and benchmarks where no model has a large one:
/// all bytes, then pairs of earlier tokens as merges make them, over letters of several scripts,
/// digits, blanks and JSON's punctuation, so that tokens begin, end and split anywhere, inside of
/// characters too. The same `seed` gives the same tokens. The last id, which adds nothing, ends a
/// text. `num_tokens` > 512.
[[nodiscard]] VocabularyBytes synthetic_vocabulary(int32_t num_tokens, uint64_t seed);

}  // namespace reprise::structured_output
