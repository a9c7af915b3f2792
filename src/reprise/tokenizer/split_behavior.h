#pragma once

#include <string_view>
#include <vector>

#include "reprise/base/text/utf8.h"
#include "reprise/tokenizer/component.h"
#include "reprise/tokenizer/regex.h"

namespace reprise::tokenizer {

/// How the matches are treated when a text is split at them.
enum class SplitBehavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };

[[nodiscard]] SplitBehavior parse_split_behavior(const Component& component);

/// Turns the matches and gaps that cover a text into its pieces, in place. A piece may be empty;
/// `is_match` has no meaning in the result.
void apply_split_behavior(SplitBehavior behavior, std::vector<MatchSpan>& spans);

/// Covers `text` with spans: the characters for which `is_separator` holds are matches; the rest
/// are gaps.
template <typename Predicate>
void split_at_characters(std::string_view text,
                         std::vector<MatchSpan>& spans,
                         Predicate&& is_separator) {
  size_t gap_begin = 0;
  for (size_t position = 0; position < text.size();) {
    const size_t begin = position;
    if (!is_separator(next_code_point(text, position))) continue;
    if (gap_begin < begin) spans.push_back({gap_begin, begin, false});
    spans.push_back({begin, position, true});
    gap_begin = position;
  }
  if (gap_begin < text.size()) spans.push_back({gap_begin, text.size(), false});
}

}  // namespace reprise::tokenizer
