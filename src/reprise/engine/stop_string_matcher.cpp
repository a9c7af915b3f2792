#include "reprise/engine/stop_string_matcher.h"

#include <algorithm>

#include "reprise/base/assert.h"

namespace reprise::engine {
namespace {

/// Knuth-Morris-Pratt: entry i is the length of the longest proper border of the first i bytes.
std::vector<uint32_t> failure_function(std::string_view text) {
  std::vector<uint32_t> failure(text.size() + 1, 0);
  uint32_t border = 0;
  for (size_t i = 1; i < text.size(); ++i) {
    while (border > 0 && text[i] != text[border]) border = failure[border];
    if (text[i] == text[border]) ++border;
    failure[i + 1] = border;
  }
  return failure;
}

}  // namespace

StopStringMatcher::StopStringMatcher(std::span<const std::string> stop, IncludeStop include_stop)
    : include_stop_(include_stop) {
  patterns_.reserve(stop.size());
  for (const std::string& text : stop) {
    REPRISE_ASSERT(!text.empty(), "a stop string is empty");
    patterns_.push_back({.text = text, .failure = failure_function(text)});
  }
}

/// Number of bytes at the end of the input that may begin a later match. After a piece with
/// Check::off a whole pattern may have been matched and ignored.
uint32_t StopStringMatcher::Pattern::num_open() const noexcept {
  return num_matched == text.size() ? failure[num_matched] : num_matched;
}

/// Returns true when the pattern ends at this byte.
bool StopStringMatcher::Pattern::advance(char c) noexcept {
  num_matched = num_open();
  while (num_matched > 0 && text[num_matched] != c) num_matched = failure[num_matched];
  if (text[num_matched] == c) ++num_matched;
  return num_matched == text.size();
}

std::string_view StopStringMatcher::append(std::string_view text, Check check) {
  held_.erase(0, num_shown_);
  num_shown_ = 0;
  if (matched_) return {};
  const size_t num_before = held_.size();
  held_.append(text);
  for (size_t i = 0; i < text.size(); ++i) {
    for (size_t p = 0; p < patterns_.size(); ++p) {
      const bool ends_here = patterns_[p].advance(text[i]);
      if (ends_here && check == Check::on && !matched_) matched_ = p;
    }
    if (matched_) {
      const size_t end = num_before + i + 1;
      const size_t stop_size = patterns_[*matched_].text.size();
      num_shown_ = include_stop_ == IncludeStop::yes ? end : end - stop_size;
      held_.resize(num_shown_);
      return held_;
    }
  }
  size_t num_held = 0;
  for (const Pattern& pattern : patterns_)
    num_held = std::max<size_t>(num_held, pattern.num_open());
  num_shown_ = held_.size() - num_held;
  return std::string_view(held_).substr(0, num_shown_);
}

std::string_view StopStringMatcher::flush() {
  held_.erase(0, num_shown_);
  num_shown_ = held_.size();
  return held_;
}

}  // namespace reprise::engine
