#pragma once

#include <string>
#include <string_view>

namespace reprise::tokenizer {

/// The bytes that a text in standard base64 with padding stands for. \throws InvalidArgument for
/// other text
[[nodiscard]] std::string decode_base64(std::string_view text);

[[nodiscard]] std::string encode_base64(std::string_view bytes);

}  // namespace reprise::tokenizer
