#pragma once

#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/base/work_limit.h"
#include "reprise/tokenizer/component.h"

namespace reprise::tokenizer {

/// A part of a text, [begin, end) in bytes: either a match, or the text between two matches.
struct MatchSpan {
  size_t begin = 0;
  size_t end = 0;
  bool is_match = false;
};

/// A compiled pattern of tokenizer.json. Immutable, so threads may share it. Matching has a limit
/// that grows with the text: a pattern that backtracks too much gives an error instead of a hang.
class Regex {
 public:
  /// Compiles the text of `component`. \throws FileError E_REGEX that points at it
  explicit Regex(const Component& component);

  /// Appends spans that cover `text`: matches and the gaps between them, in order. Appends nothing
  /// if `text` is empty. \pre `text` is well-formed UTF-8. \throws FileError E_REGEX if the limit
  /// is reached, and Abandoned from `work`
  void split(std::string_view text, std::vector<MatchSpan>& spans, WorkMeter& work) const;

 private:
  struct Code;
  struct MatchState;
  /// False when nothing matches at or after `start`.
  bool search(std::string_view text, size_t start, MatchState& state) const;

  std::shared_ptr<const Code> code_;  // copies of a tokenizer component share one compiled program
  std::string file_;
  std::string pointer_;
};

/// A "pattern" member: {"String": text} or {"Regex": expression}.
class Pattern {
 public:
  static constexpr size_t kNoLimit = std::numeric_limits<size_t>::max();

  explicit Pattern(const Component& component);

  /// Works like Regex::split().
  void split(std::string_view text, std::vector<MatchSpan>& spans, WorkMeter& work) const;
  /// \throws InvalidArgument too when the result would have more than `max_bytes`
  [[nodiscard]] std::string replace_all(std::string_view text,
                                        std::string_view replacement,
                                        WorkMeter& work,
                                        size_t max_bytes = kNoLimit) const;
  /// The same without limits on the work and the result.
  [[nodiscard]] std::string replace_all(std::string_view text, std::string_view replacement) const {
    WorkMeter no_limit;
    return replace_all(text, replacement, no_limit);
  }
  /// No match is shorter than this, unless it is empty.
  [[nodiscard]] size_t least_match_bytes() const { return regex_.empty() ? literal_.size() : 1; }

 private:
  std::string literal_;  // used when regex_ is empty
  std::vector<Regex> regex_;
};

}  // namespace reprise::tokenizer
