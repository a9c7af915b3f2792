#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace reprise::tokenizer {

/// The pieces of a vocabulary by their first bytes, in flat tables: finds all pieces that begin at
/// one place of a text. Immutable.
class PieceTrie {
 public:
  struct Piece {
    std::string_view text;
    int32_t id = 0;
  };

  /// Empty pieces are left out. \pre no text occurs twice
  explicit PieceTrie(std::vector<Piece> pieces);

  /// Calls `visit(num_bytes, id)` for each piece that `text` begins with, the shortest first.
  template <typename Visit>
  void for_each_prefix(std::string_view text, Visit&& visit) const {
    uint32_t node = text.empty() ? kNone : first_[static_cast<uint8_t>(text[0])];
    for (size_t num_bytes = 1; node != kNone; ++num_bytes) {
      if (nodes_[node].id >= 0) visit(num_bytes, nodes_[node].id);
      if (num_bytes == text.size()) return;
      node = child(nodes_[node], static_cast<uint8_t>(text[num_bytes]));
    }
  }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  struct Node {
    int32_t id = -1;  // the id of the piece that ends here; -1: none
    // Index of the first child; children follow each other in ascending order of their bytes.
    uint32_t children = 0;
    uint16_t num_children = 0;
    uint8_t byte = 0;  // the last byte of the prefix that this node stands for
  };
  [[nodiscard]] uint32_t child(const Node& node, uint8_t byte) const;

  std::vector<Node> nodes_;
  std::array<uint32_t, 256> first_{};
};

}  // namespace reprise::tokenizer
