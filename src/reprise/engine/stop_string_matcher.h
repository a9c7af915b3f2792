#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::engine {

/// Finds stop strings in streamed text and says which part of it may be shown already.
///
/// The matcher holds back the longest suffix that could still become a stop string, so shown text
/// is never taken back. The result does not depend on how the text is cut into pieces: the match
/// that *ends* first wins; among matches that end together, the stop string listed first wins (in
/// vLLM, the first in the list among those within a piece). There is one Knuth-Morris-Pratt
/// automaton per stop string, so the cost is O(bytes x stop strings) for any text. The shown part
/// never ends inside a UTF-8 character if text and stop strings are valid UTF-8.
class StopStringMatcher {
 public:
  enum class IncludeStop : uint8_t { no, yes };  // SamplingParams::include_stop_str_in_output
  enum class Check : uint8_t { on, off };

  /// \pre no stop string is empty (SamplingParams are validated).
  explicit StopStringMatcher(std::span<const std::string> stop,
                             IncludeStop include_stop = IncludeStop::no);

  /// Adds newly detokenised text and returns what may be shown now; the view is valid until the
  /// next call. `Check::off` (below min_tokens) ignores matches that end in this piece. After a
  /// match, further text is ignored.
  std::string_view append(std::string_view text, Check check = Check::on);
  /// Called when the request ended for another reason: returns the text held back.
  std::string_view flush();

  [[nodiscard]] bool is_matched() const noexcept { return matched_.has_value(); }
  /// The stop string found; empty when none was.
  [[nodiscard]] std::string_view matched() const noexcept {
    return matched_ ? std::string_view(patterns_[*matched_].text) : std::string_view();
  }
  [[nodiscard]] size_t num_held_bytes() const noexcept { return held_.size() - num_shown_; }

 private:
  struct Pattern {
    std::string text;
    std::vector<uint32_t> failure;  // [i]: longest proper border of text[0, i]
    uint32_t num_matched = 0;       // longest prefix of text that is a suffix of the input

    [[nodiscard]] uint32_t num_open() const noexcept;
    [[nodiscard]] bool advance(char c) noexcept;
  };

  std::vector<Pattern> patterns_;
  IncludeStop include_stop_;
  std::optional<size_t> matched_;
  std::string held_;      // shown by the last call, then the text held back
  size_t num_shown_ = 0;  // length of the prefix of held_ that the last call returned
};

}  // namespace reprise::engine
