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

/// A token that is found in the text before the model sees it.
struct AddedToken {
  int32_t id = 0;
  std::string content;
  /// What decoding starts from: `content`, normalized where the token is looked for in normalized
  /// text, so that a space that normalization wrote into the token comes back.
  std::string piece;
  bool special = false;      // control token: decode() can leave it out, parse_special governs it
  bool single_word = false;  // only where no word character touches it
  bool lstrip = false;       // takes the white space before it along
  bool rstrip = false;       // takes the white space after it along
  bool normalized = true;    // looked for in the normalized text, else in the text as it came
};

/// A stretch of text or, when `id` is not negative, an added token.
struct TextSegment {
  size_t begin = 0;
  size_t end = 0;
  int32_t id = -1;
};

/// The "added_tokens" of tokenizer.json and where they are in a text.
class AddedTokens {
 public:
  // Longest published one is about 40 bytes. Looking for one costs its length at each byte.
  static constexpr size_t kMaxContentBytes = 512;
  static constexpr size_t kMaxTotalBytes = size_t{4} << 20;

  AddedTokens() = default;
  /// `component`: the array. \throws FileError E_TOKENIZER
  AddedTokens(const Component& component, const Normalizer& normalizer);
  // The index views the strings of tokens_, which a move keeps in place and a copy would not.
  AddedTokens(AddedTokens&&) = default;
  AddedTokens& operator=(AddedTokens&&) = default;

  enum class Stage { raw_text, normalized_text };
  enum class Special { as_token, as_text };
  /// Cuts `text` at the tokens of this stage; segments of text are never empty. At the offsets
  /// `plain_at`, ascending, no control token begins.
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
