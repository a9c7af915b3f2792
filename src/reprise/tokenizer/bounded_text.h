#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "reprise/base/error.h"

namespace reprise::tokenizer {

/// A text that a tokenizer's steps make longer, up to a limit. A file may name any replacement, and
/// chained replacements multiply: seven of them could turn a hundred bytes into gigabytes.
class BoundedText {
 public:
  static constexpr size_t kNoLimit = std::numeric_limits<size_t>::max();

  explicit BoundedText(size_t max_bytes = kNoLimit) : max_bytes_(max_bytes) {}

  void reserve(size_t num_bytes) { text_.reserve(num_bytes); }
  /// \throws InvalidArgument when the text would be longer than its limit
  void append(std::string_view more) {
    check(text_.size() + more.size());
    text_.append(more);
  }
  /// Refuses a text of `num_bytes` bytes if it is above the limit.
  void check(size_t num_bytes) const {
    if (num_bytes <= max_bytes_) return;
    throw InvalidArgument(
        fmt::format("the normalizer of tokenizer.json makes more than {} bytes of this text; a "
                    "text may become {} times as long",
                    max_bytes_,
                    kMaxGrowth));
  }
  [[nodiscard]] std::string take() && { return std::move(text_); }

  /// No character of Unicode becomes more than 11 times as long (U+FDFA under NFKD), and no step of
  /// a published file makes more than three bytes of one.
  static constexpr size_t kMaxGrowth = 16;
  /// The longest text that a normalizer may make of `num_bytes` bytes. The constant leaves room for
  /// text that is put in front.
  [[nodiscard]] static constexpr size_t most_normalized_bytes(size_t num_bytes) {
    return kMaxGrowth * num_bytes + 1024;
  }

 private:
  size_t max_bytes_;
  std::string text_;
};

}  // namespace reprise::tokenizer
