#pragma once

#include <array>
#include <string_view>

#include "reprise/weights/gguf/metadata.h"

namespace reprise::weights::gguf {

/// How the text of byte-level BPE is cut before merging, by the value of tokenizer.ggml.pre.
struct PreTokenizer {
  std::string_view name;
  /// Each cuts what the ones before have left. None: GPT-2's own.
  std::array<std::string_view, 6> patterns = {};
  bool splits_digits = false;       // before the patterns: each digit is a piece
  bool splits_punctuation = false;  // before the patterns: neighbouring signs are a piece
  bool groups_digits = false;       // at last: numbers lie apart from other text, in threes
  bool composes = false;            // Unicode NFC first
  bool ignores_merges = false;
  bool adds_bos = false;  // when the file does not say
};

/// That of llama.cpp for files without tokenizer.ggml.pre, which are older than the key, or with
/// the name "default". \throws FileError E_TOKENIZER for a name that is not in the list
[[nodiscard]] const PreTokenizer& find_pre_tokenizer(const Metadata& metadata);
/// The file does not say how its model cuts text.
[[nodiscard]] bool has_default_pre_tokenizer(const Metadata& metadata);

}  // namespace reprise::weights::gguf
