#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "reprise/tokenizer/tokenizer.h"

namespace reprise::structured_output {

/// The bytes that each token adds to a text. A token may be a part of a character.
struct VocabularyBytes {
  // By id; empty: the token adds nothing (special tokens, unused ids).
  std::vector<std::string> tokens;
  std::vector<int32_t> end_token_ids;  // end of text
};

/// `vocab_size` is the size of the model's vocabulary. Ids that the tokenizer does not have get
/// empty texts.
[[nodiscard]] VocabularyBytes vocabulary_bytes(const tokenizer::Tokenizer& tokenizer,
                                               int32_t vocab_size,
                                               std::span<const int32_t> end_token_ids);

}  // namespace reprise::structured_output
