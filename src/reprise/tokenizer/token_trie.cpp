#include "reprise/tokenizer/token_trie.h"

#include <algorithm>

namespace reprise::tokenizer {
namespace {

constexpr auto kByteBelow = [](const auto& edge, uint8_t byte) { return edge.first < byte; };

}  // namespace

void TokenTrie::add(std::string_view token, int32_t value) {
  const auto new_node = [&] {
    nodes_.emplace_back();
    return static_cast<uint32_t>(nodes_.size() - 1);
  };
  uint32_t& first = root_[static_cast<uint8_t>(token.front())];
  if (first == 0) first = new_node() + 1;
  uint32_t node = first - 1;
  for (const char c : token.substr(1)) {
    const auto byte = static_cast<uint8_t>(c);
    auto& children = nodes_[node].children;
    const auto edge = std::lower_bound(children.begin(), children.end(), byte, kByteBelow);
    if (edge != children.end() && edge->first == byte) {
      node = edge->second;
      continue;
    }
    const auto target = static_cast<uint32_t>(nodes_.size());
    children.insert(edge, {byte, target});
    node = new_node();
  }
  if (nodes_[node].value < 0) nodes_[node].value = value;
}

uint32_t TokenTrie::child(uint32_t node, uint8_t byte) const {
  const auto& children = nodes_[node].children;
  const auto edge = std::lower_bound(children.begin(), children.end(), byte, kByteBelow);
  return edge != children.end() && edge->first == byte ? edge->second + 1 : 0;
}

TokenTrie::Match TokenTrie::find(std::string_view text, size_t from) const {
  if (nodes_.empty()) return {};
  for (size_t begin = from; begin < text.size(); ++begin) {
    Match match;
    uint32_t next = root_[static_cast<uint8_t>(text[begin])];
    for (size_t end = begin + 1; next != 0; ++end) {
      const uint32_t node = next - 1;
      if (nodes_[node].value >= 0) match = {begin, end, nodes_[node].value};
      if (end == text.size()) break;
      next = child(node, static_cast<uint8_t>(text[end]));
    }
    if (match.value >= 0) return match;
  }
  return {};
}

}  // namespace reprise::tokenizer
