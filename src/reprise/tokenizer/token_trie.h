#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace reprise::tokenizer {

/// A set of strings to be searched for in a text: the leftmost match wins and, at the same place,
/// the longest string.
class TokenTrie {
 public:
  TokenTrie() { root_.fill(0); }

  /// A string that is already there keeps its first value. \pre `token` is not empty
  void add(std::string_view token, int32_t value);

  struct Match {
    size_t begin = 0;
    size_t end = 0;
    int32_t value = -1;  // -1: nothing found
  };
  [[nodiscard]] Match find(std::string_view text, size_t from) const;

 private:
  struct Node {
    int32_t value = -1;
    std::vector<std::pair<uint8_t, uint32_t>> children;  // sorted by byte
  };
  [[nodiscard]] uint32_t child(uint32_t node, uint8_t byte) const;

  std::array<uint32_t, 256> root_;  // first byte -> node + 1, 0 when no string starts with it
  std::vector<Node> nodes_;
};

}  // namespace reprise::tokenizer
