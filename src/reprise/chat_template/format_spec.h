#pragma once

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "reprise/chat_template/sandbox.h"

namespace reprise::chat_template {

/// One conversion of `text % values` or of text.format().
struct FormatSpec {
  std::string fill = " ";
  char align = 0;  // one of < > ^ =; 0: the default of the type
  char sign = '-';
  bool is_alternate = false;
  int64_t width = 0;
  char grouping = 0;  // ',' or '_'
  std::optional<int64_t> precision;
  char type = 0;
};

/// Reads a format from front to back.
class FormatReader {
 public:
  FormatReader(Sandbox& sandbox, std::string_view text) : sandbox_(sandbox), text_(text) {}

  [[nodiscard]] bool at_end() const { return offset_ >= text_.size(); }
  [[nodiscard]] char peek(size_t ahead = 0) const {
    return offset_ + ahead < text_.size() ? text_[offset_ + ahead] : '\0';
  }
  char take() {
    if (at_end()) sandbox_.fail("incomplete format");
    return text_[offset_++];
  }
  bool take_if(char c) {
    if (at_end() || peek() != c) return false;
    ++offset_;
    return true;
  }
  /// Takes the text before the next character of `stops`, or all that is left.
  std::string_view until(std::string_view stops) {
    const size_t end = std::min(text_.find_first_of(stops, offset_), text_.size());
    const auto part = text_.substr(offset_, end - offset_);
    offset_ = end;
    return part;
  }
  /// Takes the decimal number at the current position, if there is one.
  std::optional<int64_t> number() {
    int64_t value = 0;
    const char* begin = text_.data() + offset_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
    if (error == std::errc::result_out_of_range) sandbox_.fail("number in format is too large");
    if (error != std::errc{} || value < 0) return std::nullopt;
    offset_ += static_cast<size_t>(end - begin);
    return value;
  }
  [[nodiscard]] std::string_view rest() const { return text_.substr(offset_); }
  void skip(size_t count) { offset_ += count; }

 private:
  Sandbox& sandbox_;
  std::string_view text_;
  size_t offset_ = 0;
};

[[nodiscard]] std::string format_integer(Sandbox& sandbox, const FormatSpec& spec, int64_t value);
[[nodiscard]] std::string format_floating(Sandbox& sandbox, const FormatSpec& spec, double value);
[[nodiscard]] std::string format_string(Sandbox& sandbox,
                                        const FormatSpec& spec,
                                        std::string_view text);
/// \throws TemplateError (limit) when the width or the precision is too large
void check_spec(Sandbox& sandbox, const FormatSpec& spec);

}  // namespace reprise::chat_template
