#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/tokenizer/bpe_model.h"
#include "reprise/tokenizer/vocabulary.h"

namespace reprise::tokenizer {

struct WordPieceOptions {
  int32_t unknown_id = 0;
  std::string continuing_prefix = "##";  // of every piece of a word but the first
  size_t max_characters = 100;           // a longer word is unknown
};

/// WordPiece: a word is cut from the left into the longest pieces of the vocabulary; a word without
/// such pieces becomes one unknown token. Immutable.
class WordPieceModel {
 public:
  /// Published files allow 100 characters. The cost of a word grows with the square of this limit.
  static constexpr size_t kMaxCharacters = 1000;

  /// `is_control[id]` is true for the ids that BpeModel::Allowed::no_control_tokens excludes.
  WordPieceModel(Vocabulary vocabulary, WordPieceOptions options, std::vector<bool> is_control);

  /// Appends the ids of `word`. \pre `word` is well-formed UTF-8
  void encode(std::string_view word, BpeModel::Allowed allowed, std::vector<int32_t>& ids) const;

  [[nodiscard]] const Vocabulary& vocabulary() const { return vocabulary_; }

 private:
  /// The id of the longest piece that the rest of a word begins with, and its length in bytes.
  struct Piece {
    int32_t id = -1;  // -1: none
    size_t bytes = 0;
  };
  [[nodiscard]] Piece longest_piece(std::string_view rest,
                                    bool is_first,
                                    BpeModel::Allowed allowed) const;

  Vocabulary vocabulary_;
  WordPieceOptions options_;
  std::vector<bool> is_control_;
};

}  // namespace reprise::tokenizer
