#include "reprise/tokenizer/split_behavior.h"

#include <algorithm>
#include <array>

namespace reprise::tokenizer {
namespace {

constexpr std::array<std::string_view, 5> kNames = {
    "Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"};

/// Merges each span into the span before it when `joins(this, before)` is true.
template <typename Joins>
void merge_neighbours(std::vector<MatchSpan>& spans, Joins&& joins) {
  size_t kept = 0;
  bool before = false;
  for (size_t i = 0; i < spans.size(); ++i) {
    const MatchSpan span = spans[i];
    if (kept > 0 && joins(span.is_match, before)) {
      // Spans are in text order or, for merged_with_next, in reverse order.
      spans[kept - 1].begin = std::min(spans[kept - 1].begin, span.begin);
      spans[kept - 1].end = std::max(spans[kept - 1].end, span.end);
    } else {
      spans[kept++] = span;
    }
    before = span.is_match;
  }
  spans.resize(kept);
}

}  // namespace

SplitBehavior parse_split_behavior(const Component& component) {
  const std::string name = component.text();
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (name == kNames[i]) return static_cast<SplitBehavior>(i);
  }
  component.fail_unknown("split behavior", name, kNames);
}

void apply_split_behavior(SplitBehavior behavior, std::vector<MatchSpan>& spans) {
  const auto match_after_gap = [](bool is_match, bool before) { return is_match && !before; };
  switch (behavior) {
    case SplitBehavior::isolated:
      return;
    case SplitBehavior::removed:
      std::erase_if(spans, [](const MatchSpan& span) { return span.is_match; });
      return;
    case SplitBehavior::contiguous:
      merge_neighbours(spans, [](bool is_match, bool before) { return is_match == before; });
      return;
    case SplitBehavior::merged_with_previous:
      merge_neighbours(spans, match_after_gap);
      return;
    case SplitBehavior::merged_with_next:
      std::reverse(spans.begin(), spans.end());
      merge_neighbours(spans, match_after_gap);
      std::reverse(spans.begin(), spans.end());
  }
}

}  // namespace reprise::tokenizer
