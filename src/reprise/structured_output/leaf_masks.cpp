#include "reprise/structured_output/leaf_masks.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace reprise::structured_output {
namespace {

std::vector<std::pair<std::string_view, int32_t>> numbered(const std::vector<std::string>& texts) {
  std::vector<std::pair<std::string_view, int32_t>> pairs;
  for (size_t i = 0; i < texts.size(); ++i) pairs.emplace_back(texts[i], static_cast<int32_t>(i));
  return pairs;
}

/// Visits all tokens from one place of a text.
class MaskMaker {
 public:
  MaskMaker(const LeafMasks& masks, const TextLeaf& leaf)
      : masks_(&masks), leaf_(leaf), needs_lengths_(leaf.is_counted()) {
    // Limits on the length are applied only when the mask is used.
    leaf_.least = 0;
    leaf_.most.reset();
  }

  LeafMask make(const TextState& at) {
    mask_.inside.resize(masks_->num_words());
    const std::vector<TokenTrie::Node>& nodes = masks_->tokens().nodes();
    std::vector<TextState> states{at};
    states[0].length = 0;
    std::vector<uint32_t> ends;
    for (uint32_t i = 0; i < nodes.size();) {
      while (!ends.empty() && i >= ends.back()) {
        ends.pop_back();
        states.pop_back();
      }
      const TokenTrie::Node& node = nodes[i];
      TextState next = states.back();
      const TextStep taken = take_byte(leaf_, next, node.byte);
      if (taken == TextStep::inside) {
        stay(node, next);
        if (ends_anywhere() && may_end(leaf_, next)) leave(i, next, ends.size() + 1);
        ends.push_back(node.end);
        states.push_back(next);
        ++i;
        continue;
      }
      if (taken == TextStep::closed) leave(i, next, ends.size() + (leaf_.is_json ? 0 : 1));
      i = node.end;
    }
    finish();
    return std::move(mask_);
  }

 private:
  void stay(const TokenTrie::Node& node, const TextState& next) {
    if (node.number < 0) return;
    masks_->tokens().for_each_with(node.number, [&](int32_t token) {
      const auto id = static_cast<uint32_t>(token);
      mask_.inside[id / 32] |= 1U << (id % 32U);
      if (!needs_lengths_) return;
      mask_.needs.push_back({next.length + leaf_.automaton->rest(next.state), token});
    });
  }

  [[nodiscard]] bool ends_anywhere() const {
    return !leaf_.is_json && leaf_.after == TextLeaf::After::anywhere;
  }
  [[nodiscard]] bool ends_answer() const {
    return !leaf_.is_json && leaf_.after == TextLeaf::After::nothing;
  }

  /// Adds all tokens that begin with these bytes, after which the text has ended.
  void leave(uint32_t first, const TextState& at, size_t num_bytes) {
    const std::vector<TokenTrie::Node>& nodes = masks_->tokens().nodes();
    const size_t behind = num_bytes + (leaf_.is_json ? 1 : 0);
    const uint32_t end = ends_answer() ? first + 1 : nodes[first].end;
    for (uint32_t i = first; i < end; ++i) {
      if (nodes[i].number < 0) continue;
      masks_->tokens().for_each_with(nodes[i].number, [&](int32_t token) {
        const std::string& text = masks_->vocabulary().tokens[static_cast<size_t>(token)];
        const std::string suffix = text.substr(behind);
        // If the text may also continue, the token is already in `inside`.
        if (suffix.empty() && ends_anywhere() && leaf_.automaton->goes_on(at.state)) return;
        const auto [found, is_new] = groups_.try_emplace(suffix, mask_.exits.size());
        if (is_new) {
          mask_.exits.emplace_back();
          mask_.suffixes.push_back(suffix);
        }
        mask_.exits[found->second].push_back({token, at.length, static_cast<uint32_t>(num_bytes)});
      });
    }
  }

  void finish() {
    std::sort(mask_.needs.begin(), mask_.needs.end(), [](const auto& left, const auto& right) {
      return left.num_characters < right.num_characters;
    });
    mask_.suffix_tree = TokenTrie(numbered(mask_.suffixes));
    size_t num_exits = 0;
    for (const auto& group : mask_.exits) num_exits += group.size();
    mask_.bytes = sizeof(LeafMask) + mask_.inside.size() * sizeof(uint32_t) +
                  mask_.needs.size() * sizeof(LeafMask::Need) + num_exits * sizeof(LeafMask::Exit) +
                  mask_.exits.size() * 80 + mask_.suffix_tree.memory_bytes();
  }

  const LeafMasks* masks_;
  TextLeaf leaf_;
  bool needs_lengths_;
  LeafMask mask_;
  std::unordered_map<std::string, size_t> groups_;
};

}  // namespace

LeafMasks::LeafMasks(VocabularyBytes vocabulary)
    : vocabulary_(std::move(vocabulary)), tree_(numbered(vocabulary_.tokens)) {}

LeafMask LeafMasks::make(const TextLeaf& leaf, const TextState& at) const {
  return MaskMaker(*this, leaf).make(at);
}

std::shared_ptr<const LeafMask> LeafMaskCache::find(const LeafMasks& masks,
                                                    const TextLeaf& leaf,
                                                    const TextState& at) {
  const int form = (leaf.is_json ? 1 : 0) | (leaf.allows_all_escapes ? 2 : 0) |
                   (leaf.is_counted() ? 4 : 0) | (static_cast<int>(leaf.after) << 3);
  const Key key{leaf.automaton.get(), form, leaf.automaton->group(at.state), at.partial};
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = masks_.find(key); found != masks_.end()) return found->second;
  }
  auto made = std::make_shared<const LeafMask>(masks.make(leaf, at));
  const std::lock_guard lock(mutex_);
  if (bytes_ + made->bytes > max_bytes_) {
    masks_.clear();
    bytes_ = 0;
  }
  if (masks_.emplace(key, made).second) bytes_ += made->bytes;
  return made;
}

size_t LeafMaskCache::memory_bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_;
}

}  // namespace reprise::structured_output
