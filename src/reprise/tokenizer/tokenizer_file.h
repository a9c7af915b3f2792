#pragma once

#include <optional>
#include <string_view>

#include "reprise/base/json.h"
#include "reprise/tokenizer/bpe_model.h"
#include "reprise/tokenizer/unigram_model.h"
#include "reprise/tokenizer/word_piece_model.h"

namespace reprise::tokenizer {

/// The content of tokenizer.json, read and checked: large tables are filled, small components stay
/// JSON.
struct TokenizerFile {
  Vocabulary vocabulary;
  MergeTable merges;
  BpeOptions bpe;
  // Given if the model is WordPiece, which has no merges.
  std::optional<WordPieceOptions> word_piece;
  // Given if the model is Unigram, which has no merges either.
  std::optional<UnigramOptions> unigram;
  // Null when the file has no such member.
  Json added_tokens;
  Json normalizer;
  Json pre_tokenizer;
  Json post_processor;
  Json decoder;
};

/// Reads the text of a tokenizer.json; `path` names it in errors. "truncation" and "padding" are
/// ignored: prompts are never cut silently.
/// \throws FileError E_TOKENIZER, E_TRUNCATED, E_DEPTH
[[nodiscard]] TokenizerFile read_tokenizer_file(std::string_view text, std::string_view path);

}  // namespace reprise::tokenizer
