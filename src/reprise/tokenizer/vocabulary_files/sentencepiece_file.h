#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace reprise::tokenizer {

/// A piece of a SentencePiece model; its id is its place in the list.
struct SentencePiece {
  enum class Type : uint8_t {
    normal = 1,
    unknown = 2,
    control = 3,
    user_defined = 4,
    unused = 5,
    byte = 6,
  };
  std::string_view text;  // into the file
  float score = 0;
  Type type = Type::normal;
};

/// The checked content of a SentencePiece model (`tokenizer.model`). Borrows the bytes of the file.
///
/// Source: src/sentencepiece_model.proto of https://github.com/google/sentencepiece
struct SentencePieceFile {
  enum class Model : uint8_t { unigram = 1, bpe = 2 };

  // The largest published model (Gemma) has 262 144 pieces.
  static constexpr size_t kMaxPieces = size_t{1} << 20;
  // The longest published piece has 93 bytes. Longer ones would make the search for merges slow.
  static constexpr size_t kMaxPieceBytes = 1024;

  std::vector<SentencePiece> pieces;
  uint32_t unknown_id = 0;  // the only piece of type unknown
  Model model = Model::unigram;
  bool byte_fallback = false;
  // The ids that the trainer named; negative: none.
  int32_t bos_id = 1;
  int32_t eos_id = 2;
  int32_t pad_id = -1;
  std::string_view character_map;  // "precompiled_charsmap"; empty: none
  bool adds_dummy_prefix = true;
  bool removes_extra_spaces = true;
  bool escapes_spaces = true;

  /// \throws FileError E_TRUNCATED or E_TOKENIZER for a file that is not a model of that kind, and
  /// for a model with a part that this engine does not support
  [[nodiscard]] static SentencePieceFile read(std::string_view bytes, std::string_view path);
};

}  // namespace reprise::tokenizer
