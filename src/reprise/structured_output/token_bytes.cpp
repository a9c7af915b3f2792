#include "reprise/structured_output/token_bytes.h"

#include <optional>
#include <string_view>
#include <variant>

#include "reprise/tokenizer/byte_alphabet.h"
#include "reprise/tokenizer/decoder.h"

namespace reprise::structured_output {
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

/// A token in the middle of a text, where nothing is stripped from its ends.
std::string bytes_of(std::string_view token, const tokenizer::Decoder& decoder) {
  std::string bytes(token);
  for (const tokenizer::Decoder::Step& step : decoder.steps()) {
    if (const auto* replace = std::get_if<tokenizer::ReplaceInToken>(&step)) {
      bytes = replace->pattern.replace_all(bytes, replace->replacement);
    } else if (std::holds_alternative<tokenizer::JoinBytePieces>(step)) {
      if (const std::optional<char> byte = byte_piece(bytes)) return {*byte};
    } else if (const auto* metaspace = std::get_if<tokenizer::MetaspaceToSpaces>(&step)) {
      const std::string& mark = metaspace->replacement;
      for (size_t at = 0; (at = bytes.find(mark, at)) != std::string::npos; ++at) {
        bytes.replace(at, mark.size(), " ");
      }
    } else if (std::holds_alternative<tokenizer::LettersToBytes>(step)) {
      std::string decoded;
      tokenizer::byte_alphabet().append_bytes(bytes, decoded);
      bytes = std::move(decoded);
    }
  }
  return bytes;
}

}  // namespace

VocabularyBytes vocabulary_bytes(const tokenizer::Tokenizer& tokenizer,
                                 int32_t vocab_size,
                                 std::span<const int32_t> end_token_ids) {
  VocabularyBytes vocabulary;
  vocabulary.tokens.resize(static_cast<size_t>(vocab_size));
  for (int32_t id = 0; id < std::min(vocab_size, tokenizer.vocab_size()); ++id) {
    const std::optional<std::string_view> token = tokenizer.id_to_token(id);
    if (!token || tokenizer.is_special(id)) continue;
    vocabulary.tokens[static_cast<size_t>(id)] = bytes_of(*token, tokenizer.decoder());
  }
  for (const int32_t id : end_token_ids) {
    if (id >= 0 && id < vocab_size) vocabulary.end_token_ids.push_back(id);
  }
  return vocabulary;
}

}  // namespace reprise::structured_output
