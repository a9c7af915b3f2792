#pragma once

#include <array>
#include <string_view>

#include "reprise/weights/gguf/metadata.h"

namespace reprise::weights::gguf {

/// How the text of byte-level BPE is cut before merging, by the value of tokenizer.ggml.pre.
struct PreTokenizer {
  std::string_view name;
  /// Each pattern cuts the pieces that the earlier ones left. Empty: GPT-2's own pattern.
  std::array<std::string_view, 6> patterns = {};
  bool splits_digits = false;  // done before the patterns: each digit becomes a piece
  // Done before the patterns: neighbouring punctuation characters become a piece.
  bool splits_punctuation = false;
  // Done last: numbers are separated from other text, in groups of three digits.
  bool groups_digits = false;
  bool composes = false;  // Unicode NFC first
  bool ignores_merges = false;
  bool adds_bos = false;  // when the file does not say
};

/// The pre-tokenizer for the file's key. For files without tokenizer.ggml.pre, which are older than
/// the key, or with the name "default": llama.cpp's. \throws FileError E_TOKENIZER for a name that
/// is not in the list
[[nodiscard]] const PreTokenizer& find_pre_tokenizer(const Metadata& metadata);
/// Whether the file does not say how its model cuts text.
[[nodiscard]] bool has_default_pre_tokenizer(const Metadata& metadata);

}  // namespace reprise::weights::gguf
