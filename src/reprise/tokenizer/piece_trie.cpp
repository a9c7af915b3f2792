#include "reprise/tokenizer/piece_trie.h"

#include <algorithm>

namespace reprise::tokenizer {
namespace {

// The pieces of a sorted list that begin with a node's prefix.
struct Range {
  size_t begin = 0;
  size_t end = 0;
  size_t depth = 0;  // bytes of the prefix
};

uint8_t byte_at(std::string_view text, size_t index) { return static_cast<uint8_t>(text[index]); }

}  // namespace

PieceTrie::PieceTrie(std::vector<Piece> pieces) {
  std::erase_if(pieces, [](const Piece& piece) { return piece.text.empty(); });
  std::ranges::sort(pieces, {}, &Piece::text);
  std::vector<Range> ranges;  // of each node
  const auto add_children = [&](Range range) {
    for (size_t begin = range.begin; begin < range.end;) {
      const uint8_t byte = byte_at(pieces[begin].text, range.depth);
      size_t end = begin + 1;
      while (end < range.end && byte_at(pieces[end].text, range.depth) == byte) ++end;
      ranges.push_back({begin, end, range.depth + 1});
      nodes_.push_back({.byte = byte});
      begin = end;
    }
  };
  add_children({0, pieces.size(), 0});
  first_.fill(kNone);
  for (uint32_t node = 0; node < nodes_.size(); ++node) first_[nodes_[node].byte] = node;
  for (size_t node = 0; node < nodes_.size(); ++node) {
    Range range = ranges[node];
    // The list is sorted, so a shorter text comes before the longer ones that begin with it.
    if (pieces[range.begin].text.size() == range.depth) nodes_[node].id = pieces[range.begin++].id;
    nodes_[node].children = static_cast<uint32_t>(nodes_.size());
    add_children(range);
    nodes_[node].num_children = static_cast<uint16_t>(nodes_.size() - nodes_[node].children);
  }
  nodes_.shrink_to_fit();
}

uint32_t PieceTrie::child(const Node& node, uint8_t byte) const {
  const auto begin = nodes_.begin() + node.children;
  const auto end = begin + node.num_children;
  const auto found = std::lower_bound(
      begin, end, byte, [](const Node& entry, uint8_t wanted) { return entry.byte < wanted; });
  return found != end && found->byte == byte ? static_cast<uint32_t>(found - nodes_.begin())
                                             : kNone;
}

}  // namespace reprise::tokenizer
