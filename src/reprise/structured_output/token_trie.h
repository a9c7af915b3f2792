#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace reprise::structured_output {

/// Texts as a tree of bytes, in the order of a walk: a node, then its children. If a byte does not
/// fit, a walk skips everything below it by going to the node's end. Immutable.
class TokenTrie {
 public:
  struct Node {
    uint32_t end;    // the first node that is not below this one
    int32_t number;  // number of the text that ends here; -1: none
    uint8_t byte;
  };

  TokenTrie() = default;
  /// Texts and their numbers. Empty texts are left out.
  explicit TokenTrie(std::vector<std::pair<std::string_view, int32_t>> texts);

  [[nodiscard]] const std::vector<Node>& nodes() const { return nodes_; }
  /// Visits the numbers of other texts that are the same as text `number`.
  template <typename Visit>
  void for_each_with(int32_t number, const Visit& visit) const {
    visit(number);
    const auto same = std::lower_bound(same_.begin(), same_.end(), std::pair(number, INT32_MIN));
    for (auto one = same; one != same_.end() && one->first == number; ++one) visit(one->second);
  }
  [[nodiscard]] size_t max_depth() const { return max_depth_; }
  [[nodiscard]] size_t memory_bytes() const { return nodes_.size() * sizeof(Node); }

 private:
  std::vector<Node> nodes_;
  // Pairs: a number in the tree, and the number of an equal text that is not in the tree.
  std::vector<std::pair<int32_t, int32_t>> same_;
  size_t max_depth_ = 0;
};

}  // namespace reprise::structured_output
