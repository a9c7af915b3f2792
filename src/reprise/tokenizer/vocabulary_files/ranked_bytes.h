#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/tokenizer/tokenizer_file.h"
#include "reprise/tokenizer/vocabulary_files/folder_settings.h"

namespace reprise::tokenizer {

/// The tokens of tiktoken: sequences of bytes, where a lower rank merges first.
struct RankedBytes {
  struct Token {
    std::string bytes;
    uint32_t rank = 0;
  };
  std::vector<Token> tokens;
  uint32_t first_id = 0;  // the id of rank 0

  // The largest published file (o200k) has 200 000 tokens, and its longest one has 128 bytes.
  static constexpr size_t kMaxTokens = size_t{1} << 20;
  static constexpr size_t kMaxTokenBytes = 1024;
};

/// Writes the vocabulary, the merges and the byte-level steps into `file`; text is cut by
/// `pattern`. \throws FileError E_TOKENIZER for repeated tokens and for a byte without a token
void set_ranked_bytes(const RankedBytes& ranked,
                      std::string_view pattern,
                      std::string_view path,
                      TokenizerFile& file);

/// Reads a file of tiktoken: one token per line, its bytes as base64, a space and its rank. \throws
/// FileError E_TOKENIZER that names the line
[[nodiscard]] RankedBytes read_tiktoken(std::string_view text, std::string_view path);

/// Whether `text` begins like a file of tiktoken.
[[nodiscard]] bool is_tiktoken(std::string_view text);

/// Makes the tokenizer of a tiktoken file: for Qwen's first models, Kimi, and Llama 3 as Meta
/// published it. \throws FileError E_TOKENIZER
[[nodiscard]] TokenizerFile tiktoken_tokenizer(const FolderSettings& settings,
                                               std::string_view text,
                                               std::string_view path);

}  // namespace reprise::tokenizer
