#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "reprise/tokenizer/tokenizer.h"

namespace reprise::structured_output {

/// What every token adds to a text, in bytes: half a character may be a token.
struct VocabularyBytes {
  std::vector<std::string> tokens;     // by id; empty: adds nothing (special tokens, unused ids)
  std::vector<int32_t> end_token_ids;  // end of text
};

/// `vocab_size` is the model's: ids beyond the tokenizer's add nothing.
[[nodiscard]] VocabularyBytes vocabulary_bytes(const tokenizer::Tokenizer& tokenizer,
                                               int32_t vocab_size,
                                               std::span<const int32_t> end_token_ids);

}  // namespace reprise::structured_output
