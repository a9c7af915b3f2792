#pragma once

#include <string_view>
#include <vector>

#include "reprise/tokenizer/tokenizer.h"
#include "tests/fuzz/targets.h"

namespace reprise::fuzz {

/// Encodes and decodes with a tokenizer that comes from an untrusted file.
inline void use_tokenizer(const tokenizer::Tokenizer& tokenizer) {
  constexpr std::string_view kText = "It's 1\u00e9 <|im_end|>  \n\xFF ab";
  for (const bool parse_special : {true, false}) {
    const std::vector<int32_t> ids = tokenizer.encode(kText, {.parse_special = parse_special});
    for (const int32_t id : ids) {
      require(id >= 0 && id < tokenizer.vocab_size(), "a token has an id of the vocabulary");
      require(tokenizer.id_to_token(id).has_value(), "every id of a text has a token");
    }
    (void)tokenizer.decode(ids);
  }
  (void)tokenizer.find_control_tokens(kText);
}

}  // namespace reprise::fuzz
