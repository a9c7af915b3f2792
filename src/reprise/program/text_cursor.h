#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <string_view>

#include "reprise/base/text/ascii.h"
#include "reprise/program/text.h"

/// The parser's view of a program's text.
namespace reprise::program {

inline bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r'; }
inline bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '_';
}

/// A position in the text. It never moves past the end of the text. Errors state its line and
/// column.
class TextCursor {
 public:
  explicit TextCursor(std::string_view text) : text_(text) {}

  [[noreturn]] void fail(const std::string& message) const { fail_at(position_, message); }
  [[noreturn]] void fail_at(size_t position, const std::string& message) const {
    throw ProgramSyntaxError(line_, position - line_begin_ + 1, message);
  }

  [[nodiscard]] size_t position() const noexcept { return position_; }
  void skip_spaces() {
    while (position_ < text_.size() && is_space(text_[position_])) ++position_;
  }
  /// The next character that is not a space, or '\0' at the end of the text.
  [[nodiscard]] char peek() {
    skip_spaces();
    return position_ < text_.size() ? text_[position_] : '\0';
  }
  [[nodiscard]] bool take_if(char wanted) {
    if (peek() != wanted || position_ >= text_.size()) return false;
    ++position_;
    return true;
  }
  void take(char wanted) {
    if (!take_if(wanted)) fail(fmt::format("expected '{}', found {}", wanted, found()));
  }
  /// One or more letters, digits and underscores.
  [[nodiscard]] std::string_view take_word(std::string_view what) {
    skip_spaces();
    const size_t begin = position_;
    while (position_ < text_.size() && is_word(text_[position_])) ++position_;
    if (begin == position_) fail(fmt::format("expected {}, found {}", what, found()));
    return text_.substr(begin, position_ - begin);
  }
  /// The text up to a character of `ends`, or up to the end of the line.
  [[nodiscard]] std::string_view take_until(std::string_view ends) {
    skip_spaces();
    const size_t begin = position_;
    while (position_ < text_.size() && text_[position_] != '\n' &&
           ends.find(text_[position_]) == std::string_view::npos) {
      ++position_;
    }
    size_t end = position_;
    while (end > begin && is_space(text_[end - 1])) --end;
    return text_.substr(begin, end - begin);
  }
  /// The comment after `//`, or nothing. \post the position is the end of the line
  [[nodiscard]] std::string_view take_comment() {
    if (!take_if('/')) return {};
    take('/');
    return take_until("");
  }
  void end_line() {
    if (peek() != '\n') fail(fmt::format("expected the end of the line, found {}", found()));
    next_line();
  }
  void skip_blank_lines() {
    while (peek() == '\n') next_line();
  }
  [[nodiscard]] bool at_end() {
    skip_blank_lines();
    return position_ >= text_.size();
  }

 private:
  void next_line() {
    ++position_;
    ++line_;
    line_begin_ = position_;
  }
  [[nodiscard]] std::string found() const {
    if (position_ >= text_.size()) return "the end of the text";
    const char c = text_[position_];
    if (c == '\n') return "the end of the line";
    if (c < ' ' || c > '~') return fmt::format("byte {:#04x}", static_cast<unsigned char>(c));
    return fmt::format("'{}'", c);
  }

  std::string_view text_;
  size_t position_ = 0;
  size_t line_ = 1;
  size_t line_begin_ = 0;
};

}  // namespace reprise::program
