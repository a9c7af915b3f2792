#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace reprise::output_parsers {

/// Finds a marker in streamed text, also when the marker is cut between two pieces.
class MarkerScanner {
 public:
  /// Appends to `before` the text that is known to precede `marker`. Returns true when the marker
  /// was found: the marker is then removed, and the text after it stays.
  bool take_until(std::string_view marker, std::string& before);
  /// The same for the first of several markers; returns the index of the one found.
  std::optional<size_t> take_until_any(std::span<const std::string_view> markers,
                                       std::string& before);

  void push(std::string_view text) { held_ += text; }
  [[nodiscard]] const std::string& held() const noexcept { return held_; }
  void drop(size_t num_bytes) { held_.erase(0, num_bytes); }
  [[nodiscard]] std::string take_all();

 private:
  std::string held_;
};

/// Length of the longest end of `text` that is a beginning of `marker`, but not the whole marker.
[[nodiscard]] size_t partial_marker(std::string_view text, std::string_view marker);

/// The end of the JSON object or array at the start of `text`: one past its last bracket, or npos
/// while the value is incomplete. Only brackets and strings are looked at.
[[nodiscard]] size_t end_of_json(std::string_view text);

}  // namespace reprise::output_parsers
