#include "reprise/tokenizer/token_bytes.h"

#include <optional>
#include <string_view>
#include <variant>

#include "reprise/tokenizer/byte_alphabet.h"
#include "reprise/tokenizer/decoder.h"

namespace reprise::tokenizer {
namespace {

/// The byte of "<0x0A>".
std::optional<char> byte_piece(std::string_view token) {
  const auto digit = [](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return -1;
  };
  if (token.size() != 6 || !token.starts_with("<0x") || token.back() != '>') return {};
  if (digit(token[3]) < 0 || digit(token[4]) < 0) return {};
  return static_cast<char>(digit(token[3]) * 16 + digit(token[4]));
}

std::string bytes_of(std::string_view token, const Decoder& decoder) {
  std::string bytes(token);
  for (const Decoder::Step& step : decoder.steps()) {
    if (const auto* replace = std::get_if<ReplaceInToken>(&step)) {
      bytes = replace->pattern.replace_all(bytes, replace->replacement);
    } else if (std::holds_alternative<JoinBytePieces>(step)) {
      if (const std::optional<char> byte = byte_piece(bytes)) return {*byte};
    } else if (const auto* metaspace = std::get_if<MetaspaceToSpaces>(&step)) {
      const std::string& mark = metaspace->replacement;
      for (size_t at = 0; (at = bytes.find(mark, at)) != std::string::npos; ++at) {
        bytes.replace(at, mark.size(), " ");
      }
    } else if (std::holds_alternative<LettersToBytes>(step)) {
      std::string decoded;
      byte_alphabet().append_bytes(bytes, decoded);
      bytes = std::move(decoded);
    }
  }
  return bytes;
}

}  // namespace

std::string token_bytes(const Tokenizer& tokenizer, int32_t id) {
  const std::optional<std::string_view> token = tokenizer.id_to_token(id);
  if (!token) return {};
  return tokenizer.is_special(id) ? std::string(*token) : bytes_of(*token, tokenizer.decoder());
}

}  // namespace reprise::tokenizer
