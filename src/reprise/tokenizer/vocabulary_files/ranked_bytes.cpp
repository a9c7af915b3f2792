#include "reprise/tokenizer/vocabulary_files/ranked_bytes.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <vector>

#include "reprise/base/error.h"
#include "reprise/base/text/utf8.h"
#include "reprise/tokenizer/base64.h"
#include "reprise/tokenizer/byte_alphabet.h"
#include "reprise/tokenizer/token_table.h"
#include "reprise/tokenizer/vocabulary_files/json_components.h"
#include "reprise/tokenizer/vocabulary_files/scored_merges.h"

namespace reprise::tokenizer {
namespace {

using namespace json_components;  // NOLINT(google-build-using-namespace): this file is about them
using Role = FolderSettings::Role;

// The expressions from the code of the classes. Kimi's has sets without Han characters. PCRE2
// cannot intersect sets, so here a look-ahead stands before each such character.
constexpr std::string_view kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwenPattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kKimiPattern =
    R"([\p{Han}]+|[^\r\n\p{L}\p{N}]?(?:(?!\p{Han})[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])*(?:(?!\p{Han})[\p{Ll}\p{Lm}\p{Lo}\p{M}])+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?(?:(?!\p{Han})[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])+(?:(?!\p{Han})[\p{Ll}\p{Lm}\p{Lo}\p{M}])*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

uint32_t read_rank(std::string_view text, size_t line, std::string_view path) {
  uint32_t rank = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), rank);
  if (error == std::errc() && end == text.data() + text.size() && rank < Vocabulary::kMaxId) {
    return rank;
  }
  throw FileError(
      "E_TOKENIZER", path, fmt::format("line {}", line), "the rank is not a small number");
}

std::string read_bytes(std::string_view text, size_t line, std::string_view path) {
  try {
    return decode_base64(text);
  } catch (const InvalidArgument& error) {
    throw FileError("E_TOKENIZER", path, fmt::format("line {}", line), error.what());
  }
}

// For Qwen's first models, no file names the special tokens.
std::map<uint32_t, Json> qwen_tokens(uint32_t first_id) {
  std::map<uint32_t, Json> tokens;
  uint32_t id = first_id;
  for (const std::string_view text : {"<|endoftext|>", "<|im_start|>", "<|im_end|>"}) {
    tokens.emplace(id++, added_token(text, true));
  }
  for (int i = 0; i < 205; ++i)
    tokens.emplace(id++, added_token(fmt::format("<|extra_{}|>", i), true));
  return tokens;
}

uint32_t end_of_ids(const RankedBytes& ranked) {
  uint32_t end = 0;
  for (const RankedBytes::Token& token : ranked.tokens) end = std::max(end, token.rank + 1);
  return ranked.first_id + end;
}

}  // namespace

void set_ranked_bytes(const RankedBytes& ranked,
                      std::string_view pattern,
                      std::string_view path,
                      TokenizerFile& file) {
  std::array<bool, 256> has_byte{};
  std::vector<RankedToken> tokens;
  tokens.reserve(ranked.tokens.size());
  file.vocabulary.reserve(ranked.tokens.size(), ranked.tokens.size() * 8);
  std::string letters;
  for (const RankedBytes::Token& token : ranked.tokens) {
    if (token.bytes.size() == 1) has_byte[static_cast<uint8_t>(token.bytes.front())] = true;
    letters.clear();
    byte_alphabet().append_letters(token.bytes, letters);
    const uint32_t id = ranked.first_id + token.rank;
    add_token(letters, id, {path, ""}, file.vocabulary);
    tokens.push_back({.text = token.bytes, .id = id, .rank = token.rank});
  }
  for (size_t byte = 0; byte < has_byte.size(); ++byte) {
    if (has_byte[byte]) continue;
    throw FileError("E_TOKENIZER",
                    path,
                    "",
                    fmt::format("the byte 0x{:02X} has no token; the file is not complete", byte));
  }
  file.merges = merges_of(tokens, path);
  file.bpe.ignore_merges = true;
  file.pre_tokenizer =
      sequence("pretokenizers", {isolate(pattern), byte_level(false, /*use_regex=*/false)});
  file.decoder = byte_level(true, true);
}

RankedBytes read_tiktoken(std::string_view text, std::string_view path) {
  RankedBytes ranked;
  for (size_t line = 1; !text.empty(); ++line) {
    std::string_view row = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), row.size() + 1));
    if (row.ends_with('\r')) row.remove_suffix(1);
    if (row.empty()) continue;
    const auto fail = [&](const std::string& message) {
      throw FileError("E_TOKENIZER", path, fmt::format("line {}", line), message);
    };
    const size_t space = row.find(' ');
    if (space == std::string_view::npos) fail("expected base64, a space and a rank");
    if (space > RankedBytes::kMaxTokenBytes * 2) fail("the token is too long");
    if (ranked.tokens.size() == RankedBytes::kMaxTokens) fail("the file has too many tokens");
    RankedBytes::Token token{.bytes = read_bytes(row.substr(0, space), line, path),
                             .rank = read_rank(row.substr(space + 1), line, path)};
    if (token.bytes.empty()) fail("the token has no bytes");
    ranked.tokens.push_back(std::move(token));
  }
  if (ranked.tokens.empty()) throw FileError("E_TOKENIZER", path, "", "the file has no tokens");
  return ranked;
}

bool is_tiktoken(std::string_view text) {
  const std::string_view row = text.substr(0, text.find('\n'));
  const size_t space = row.find(' ');
  return space != std::string_view::npos && space > 0 && space % 4 == 0 &&
         row.find_first_not_of(
             "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=") == space;
}

TokenizerFile tiktoken_tokenizer(const FolderSettings& settings,
                                 std::string_view text,
                                 std::string_view path) {
  std::string_view pattern;
  if (settings.is_class({"QWen"})) pattern = kQwenPattern;
  if (settings.is_class({"TikToken"})) pattern = kKimiPattern;
  if (settings.is_class({"", "PreTrained", "Llama"})) pattern = kLlama3Pattern;
  if (pattern.empty()) {
    throw FileError("E_TOKENIZER",
                    settings.path_of("tokenizer_config.json"),
                    "/tokenizer_class",
                    fmt::format("'{}' is not supported with a file of tiktoken; supported: "
                                "QWenTokenizer, TikTokenTokenizer (Kimi), none (Llama 3)",
                                settings.tokenizer_class));
  }
  const RankedBytes ranked = read_tiktoken(text, path);
  TokenizerFile file;
  set_ranked_bytes(ranked, pattern, path, file);
  std::map<uint32_t, Json> tokens;
  if (settings.is_class({"QWen"})) tokens = qwen_tokens(end_of_ids(ranked));
  file.added_tokens = added_tokens_json(
      settings, tokens, [&](std::string_view token) { return file.vocabulary.find(token); });
  if (file.added_tokens.empty()) {
    throw FileError("E_TOKENIZER",
                    settings.path_of("tokenizer_config.json"),
                    "/added_tokens_decoder",
                    "is required: a file of tiktoken holds no special tokens");
  }
  const auto piece = [&](std::string_view role, std::string_view flag) {
    return settings.flag(flag).value_or(false) ? token_piece(role, settings, file)
                                               : TemplatePiece{};
  };
  file.post_processor =
      bos_eos_template(piece("bos_token", "add_bos_token"), piece("eos_token", "add_eos_token"));
  return file;
}

}  // namespace reprise::tokenizer
