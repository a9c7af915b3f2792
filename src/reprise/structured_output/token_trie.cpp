#include "reprise/structured_output/token_trie.h"

#include <algorithm>

namespace reprise::structured_output {

TokenTrie::TokenTrie(std::vector<std::pair<std::string_view, int32_t>> texts) {
  std::sort(texts.begin(), texts.end());
  std::vector<uint32_t> open;  // the nodes of the text before
  std::string_view before;
  for (const auto& [text, number] : texts) {
    if (text.empty()) continue;
    if (text == before) {
      same_.emplace_back(nodes_.back().number, number);
      continue;
    }
    size_t common = 0;
    while (common < before.size() && common < text.size() && before[common] == text[common]) {
      ++common;
    }
    for (; open.size() > common; open.pop_back()) {
      nodes_[open.back()].end = static_cast<uint32_t>(nodes_.size());
    }
    for (size_t i = common; i < text.size(); ++i) {
      open.push_back(static_cast<uint32_t>(nodes_.size()));
      nodes_.push_back({0, -1, static_cast<uint8_t>(text[i])});
    }
    nodes_.back().number = number;
    max_depth_ = std::max(max_depth_, text.size());
    before = text;
  }
  for (const uint32_t node : open) nodes_[node].end = static_cast<uint32_t>(nodes_.size());
  std::sort(same_.begin(), same_.end());
}

}  // namespace reprise::structured_output
