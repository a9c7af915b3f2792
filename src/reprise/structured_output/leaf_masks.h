#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "reprise/structured_output/text_leaf.h"
#include "reprise/structured_output/token_bytes.h"
#include "reprise/structured_output/token_trie.h"

namespace reprise::structured_output {

/// The tokens that can follow at one place of a text, whatever comes before and after the text.
struct LeafMask {
  /// Tokens after which the text continues, ignoring limits on the length.
  std::vector<uint32_t> inside;
  /// For limits on the length: each of these tokens with the number of characters in it and in the
  /// shortest rest after it, sorted by this number.
  struct Need {
    uint32_t num_characters;
    int32_t token;
  };
  std::vector<Need> needs;

  /// Tokens that end the text and continue after it, grouped by their bytes after its end.
  struct Exit {
    int32_t token;
    uint32_t num_characters;  // of the text
    uint32_t num_bytes;       // before the quote
  };
  std::vector<std::vector<Exit>> exits;
  std::vector<std::string> suffixes;  // one for each group
  TokenTrie suffix_tree;              // numbers are those of groups
  size_t bytes = 0;
};

/// The vocabulary and its masks for texts. Thread-safe.
class LeafMasks {
 public:
  explicit LeafMasks(VocabularyBytes vocabulary);

  [[nodiscard]] const TokenTrie& tokens() const { return tree_; }
  [[nodiscard]] const VocabularyBytes& vocabulary() const { return vocabulary_; }
  [[nodiscard]] size_t num_words() const { return (vocabulary_.tokens.size() + 31) / 32; }
  /// The largest number of characters in a token.
  [[nodiscard]] size_t max_characters() const { return tree_.max_depth(); }

  [[nodiscard]] LeafMask make(const TextLeaf& leaf, const TextState& at) const;

 private:
  VocabularyBytes vocabulary_;
  TokenTrie tree_;
};

/// Keeps masks, up to a number of bytes. Thread-safe.
class LeafMaskCache {
 public:
  explicit LeafMaskCache(size_t max_bytes) : max_bytes_(max_bytes) {}

  [[nodiscard]] std::shared_ptr<const LeafMask> find(const LeafMasks& masks,
                                                     const TextLeaf& leaf,
                                                     const TextState& at);
  [[nodiscard]] size_t memory_bytes() const;

 private:
  using Key = std::tuple<const Automaton*, int, uint32_t, uint32_t>;

  size_t max_bytes_;
  mutable std::mutex mutex_;
  std::map<Key, std::shared_ptr<const LeafMask>> masks_;
  size_t bytes_ = 0;
};

}  // namespace reprise::structured_output
