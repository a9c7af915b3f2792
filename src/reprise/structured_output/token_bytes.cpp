#include "reprise/structured_output/token_bytes.h"

#include <algorithm>

#include "reprise/tokenizer/token_bytes.h"

namespace reprise::structured_output {

VocabularyBytes vocabulary_bytes(const tokenizer::Tokenizer& tokenizer,
                                 int32_t vocab_size,
                                 std::span<const int32_t> end_token_ids) {
  VocabularyBytes vocabulary;
  vocabulary.tokens.resize(static_cast<size_t>(vocab_size));
  for (int32_t id = 0; id < std::min(vocab_size, tokenizer.vocab_size()); ++id) {
    if (tokenizer.is_special(id)) continue;
    vocabulary.tokens[static_cast<size_t>(id)] = tokenizer::token_bytes(tokenizer, id);
  }
  for (const int32_t id : end_token_ids) {
    if (id >= 0 && id < vocab_size) vocabulary.end_token_ids.push_back(id);
  }
  return vocabulary;
}

}  // namespace reprise::structured_output
