#pragma once

#include <cstdint>
#include <string>

#include "reprise/tokenizer/tokenizer.h"

namespace reprise::tokenizer {

/// The bytes that a token adds in the middle of a text, where nothing is stripped from its ends.
/// They may be a part of a character. A control token has the bytes of its name, and an id without
/// a token has none.
[[nodiscard]] std::string token_bytes(const Tokenizer& tokenizer, int32_t id);

}  // namespace reprise::tokenizer
