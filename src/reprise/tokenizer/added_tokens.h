#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "reprise/tokenizer/component.h"
#include "reprise/tokenizer/normalizer.h"
#include "reprise/tokenizer/token_trie.h"

namespace reprise::tokenizer {

/// A token that is cut out of the text before the rest of the text is split for the model.
struct AddedToken {
  int32_t id = 0;
  std::string content;
  /// The text that decode() starts from: `content`, or its normalized form for a token that is
  /// searched for in normalized text. A space that normalization added is then part of the output.
  std::string piece;
  // Control token: decode() can skip it, and parse_special decides whether encode() finds it.
  bool special = false;
  bool single_word = false;  // matches only if no word character is next to it
  bool lstrip = false;       // also takes the white space before it
  bool rstrip = false;       // also takes the white space after it
  // True: searched for in the normalized text; false: in the original text.
  bool normalized = true;
};

/// A part of a text or, if `id` is not negative, an added token.
struct TextSegment {
  size_t begin = 0;
  size_t end = 0;
  int32_t id = -1;
};

/// The "added_tokens" of tokenizer.json. Finds them in a text.
class AddedTokens {
 public:
  // The longest published token has about 40 bytes. A search may compare this many bytes at each
  // byte of the text.
  static constexpr size_t kMaxContentBytes = 512;
  static constexpr size_t kMaxTotalBytes = size_t{4} << 20;

  AddedTokens() = default;
  /// `component`: the array. \throws FileError E_TOKENIZER
  AddedTokens(const Component& component, const Normalizer& normalizer);
  // The index holds views of the strings in tokens_. A move keeps these strings in place, a copy
  // would not.
  AddedTokens(AddedTokens&&) = default;
  AddedTokens& operator=(AddedTokens&&) = default;

  enum class Stage { raw_text, normalized_text };
  enum class Special { as_token, as_text };
  /// Cuts `text` at the tokens that are searched for at this stage (in original or in normalized
  /// text). Segments of text are never empty. `plain_at` holds ascending offsets at which no
  /// control token begins.
  [[nodiscard]] std::vector<TextSegment> split(std::string_view text,
                                               Stage stage,
                                               Special special,
                                               std::span<const size_t> plain_at) const;

  [[nodiscard]] std::span<const AddedToken> all() const { return tokens_; }
  /// Null when no added token has this id or content.
  [[nodiscard]] const AddedToken* find(int32_t id) const;
  [[nodiscard]] const AddedToken* find(std::string_view content) const;

 private:
  std::vector<AddedToken> tokens_;
  std::unordered_map<int32_t, size_t> index_by_id_;
  std::unordered_map<std::string_view, size_t> index_by_content_;  // views of tokens_
  TokenTrie raw_;                                                  // values are indices of tokens_
  TokenTrie normalized_;
};

}  // namespace reprise::tokenizer
