#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/tokenizer/bounded_text.h"
#include "reprise/tokenizer/component.h"

namespace reprise::tokenizer {

/// SentencePiece's `precompiled_charsmap`: sequences of characters and what stands for them, as a
/// double-array trie (Darts) and a block of texts. Immutable.
///
/// It works like the crate `tokenizers`, not like SentencePiece: a grapheme cluster of less than
/// six bytes that begins with a sequence of the map becomes the text of the shortest such sequence,
/// and the rest of the cluster is lost. Other text is mapped character by character.
///
/// Source: the crates `tokenizers` (normalizers/precompiled.rs) and `spm_precompiled`.
class PrecompiledMap {
 public:
  /// `bytes`: the size of the trie in bytes (32 bits, little-endian), the units of the trie (also
  /// 32 bits, little-endian), and the texts, each followed by a zero. All paths through the trie
  /// are checked. \throws FileError E_TOKENIZER that names `component`
  PrecompiledMap(std::string_view bytes, const Component& component);

  /// \pre `text` is well-formed UTF-8 \throws InvalidArgument when the result would have more than
  /// `max_bytes`
  [[nodiscard]] std::string apply(std::string_view text,
                                  size_t max_bytes = BoundedText::kNoLimit) const;

 private:
  void check(const Component& component) const;
  /// The text for the shortest sequence with which `characters` begins; nothing: there is none.
  [[nodiscard]] std::optional<std::string_view> find(std::string_view characters) const;
  [[nodiscard]] std::string_view text_at(size_t begin) const;

  std::vector<uint32_t> units_;
  std::string texts_;
};

/// Decodes the base64 of a precompiled_charsmap. \throws as PrecompiledMap
[[nodiscard]] PrecompiledMap parse_precompiled_map(const Component& component);

}  // namespace reprise::tokenizer
