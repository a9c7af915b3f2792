#include "reprise/chat_template/lexer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <optional>

#include "reprise/base/text/ascii.h"
#include "reprise/chat_template/unicode.h"

namespace reprise::chat_template {
namespace {

// Turns \r\n and \r into \n, and drops one newline at the very end (keep_trailing_newline=False).
std::string normalize_newlines(std::string_view source) {
  std::string text;
  text.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
      text += '\n';
    } else {
      text += source[i];
    }
  }
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

bool is_sign(char c) { return c == '-' || c == '+'; }

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(normalize_newlines(source)) {}

  std::vector<Token> run() {
    if (!is_valid_utf8(source_)) fail("the template is not valid UTF-8");
    while (offset_ < source_.size()) lex_data();
    push(TokenKind::end, "");
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void fail(std::string_view message) const {
    throw TemplateError(TemplateError::Cause::syntax, position(), message);
  }

  // Line and column of offset_; the scan only moves forward.
  Position position() const {
    for (; counted_ < offset_; ++counted_) {
      if (source_[counted_] == '\n') {
        ++line_;
        line_start_ = counted_ + 1;
      }
    }
    return {line_, static_cast<int>(offset_ - line_start_) + 1};
  }

  [[nodiscard]] char peek(size_t ahead = 0) const {
    return offset_ + ahead < source_.size() ? source_[offset_ + ahead] : '\0';
  }
  [[nodiscard]] bool looking_at(std::string_view text, size_t ahead = 0) const {
    return std::string_view(source_)
        .substr(std::min(offset_ + ahead, source_.size()))
        .starts_with(text);
  }

  Token& push(TokenKind kind, std::string text) {
    tokens_.push_back({.kind = kind, .text = std::move(text), .at = position()});
    return tokens_.back();
  }

  // The end of the white space that starts at `from`.
  [[nodiscard]] size_t skip_space(size_t from) const {
    while (from < source_.size()) {
      size_t after = from;
      if (!unicode::is_space(next_code_point(source_, after))) break;
      from = after;
    }
    return from;
  }

  void advance_to(size_t offset) {
    starts_line_ = offset > 0 && source_[offset - 1] == '\n';
    offset_ = offset;
  }

  // ---- outside tags ----

  // Reads the text up to the next tag, then the tag.
  void lex_data() {
    size_t tag = offset_;
    while (true) {
      tag = source_.find('{', tag);
      if (tag == std::string::npos || tag + 1 >= source_.size()) {
        push(TokenKind::data, source_.substr(offset_));
        offset_ = source_.size();
        return;
      }
      const char kind = source_[tag + 1];
      if (kind == '{' || kind == '%' || kind == '#') break;
      ++tag;
    }
    const char kind = source_[tag + 1];
    const char sign = tag + 2 < source_.size() ? source_[tag + 2] : '\0';
    push_data(std::string_view(source_).substr(offset_, tag - offset_), sign, kind != '{');
    advance_to(tag);
    if (kind == '#') {
      lex_comment();
    } else if (const auto raw_body = match_raw_begin()) {
      lex_raw(*raw_body);
    } else {
      push(kind == '{' ? TokenKind::variable_begin : TokenKind::block_begin, "");
      advance_to(offset_ + (is_sign(sign) ? 3 : 2));
      lex_tag(kind == '{');
    }
  }

  // Adds the text before a tag with this `sign`. lstrip_blocks does not apply to {{ }}.
  void push_data(std::string_view text, char sign, bool may_lstrip) {
    if (sign == '-') {
      text = unicode::strip(text, unicode::Side::right);
    } else if (sign != '+' && may_lstrip) {
      const size_t line = text.rfind('\n') == std::string_view::npos ? 0 : text.rfind('\n') + 1;
      const bool is_blank = unicode::strip(text.substr(line)).empty();
      if ((line > 0 || starts_line_) && is_blank) text = text.substr(0, line);
    }
    if (!text.empty()) push(TokenKind::data, std::string(text));
  }

  // The offset after the closing delimiter at `from`: after "-%}" and white space, after "%}" and
  // one newline, or after "+%}". nullopt when there is no closing delimiter at `from`.
  [[nodiscard]] std::optional<size_t> match_end(std::string_view close, size_t from) const {
    const std::string_view rest = std::string_view(source_).substr(from);
    const bool is_variable = close == "}}";
    if (rest.starts_with('-') && rest.substr(1).starts_with(close)) {
      return skip_space(from + 1 + close.size());
    }
    if (!is_variable && rest.starts_with('+') && rest.substr(1).starts_with(close)) {
      return from + 1 + close.size();
    }
    if (!rest.starts_with(close)) return std::nullopt;
    const size_t end = from + close.size();
    const bool trims = !is_variable && end < source_.size() && source_[end] == '\n';
    return trims ? end + 1 : end;
  }

  void lex_comment() {
    const size_t body = offset_ + (is_sign(peek(2)) ? 3 : 2);
    if (body == source_.size()) return advance_to(body);  // jinja2 accepts this
    for (size_t at = body; at < source_.size(); ++at) {
      if (const auto end = match_end("#}", at)) {
        advance_to(*end);
        return;
      }
    }
    fail("Missing end of comment tag");
  }

  // The offset at which the body of {%- raw -%} begins, or nullopt when this tag is not a raw tag.
  [[nodiscard]] std::optional<size_t> match_raw_begin() const {
    if (peek(1) != '%') return std::nullopt;
    size_t at = skip_space(offset_ + (is_sign(peek(2)) ? 3 : 2));
    if (!std::string_view(source_).substr(at).starts_with("raw")) return std::nullopt;
    at = skip_space(at + 3);
    const std::string_view rest = std::string_view(source_).substr(at);
    if (rest.starts_with("-%}")) return skip_space(at + 3);
    return rest.starts_with("%}") ? std::optional(at + 2) : std::nullopt;
  }

  void lex_raw(size_t body) {
    advance_to(body);
    if (body == source_.size()) return;  // jinja2 accepts this
    for (size_t at = body; (at = source_.find("{%", at)) != std::string::npos; ++at) {
      const char sign = at + 2 < source_.size() ? source_[at + 2] : '\0';
      size_t word = skip_space(at + (is_sign(sign) ? 3 : 2));
      if (!std::string_view(source_).substr(word).starts_with("endraw")) continue;
      const auto end = match_end("%}", skip_space(word + 6));
      if (!end) continue;
      push_data(std::string_view(source_).substr(body, at - body), sign, /*may_lstrip=*/true);
      advance_to(*end);
      return;
    }
    fail("Missing end of raw directive");
  }

  // ---- inside {{ }} and {% %} ----

  void lex_tag(bool is_variable) {
    std::string open_brackets;
    while (true) {
      offset_ = skip_space(offset_);
      if (offset_ >= source_.size()) return;  // the parser reports the missing end
      if (open_brackets.empty()) {
        if (const auto end = match_end(is_variable ? "}}" : "%}", offset_)) {
          push(is_variable ? TokenKind::variable_end : TokenKind::block_end, "");
          advance_to(*end);
          return;
        }
      }
      lex_token(open_brackets);
    }
  }

  void lex_token(std::string& open_brackets) {
    const char c = peek();
    size_t after = offset_;
    const char32_t code_point = next_code_point(source_, after);
    if (is_digit(c)) {
      lex_number();
    } else if (c == '\'' || c == '"') {
      lex_string(c);
    } else if (unicode::is_word(code_point)) {
      lex_name();
    } else {
      lex_operator(open_brackets);
    }
  }

  void lex_name() {
    size_t end = offset_;
    while (end < source_.size()) {
      size_t after = end;
      if (!unicode::is_word(next_code_point(source_, after))) break;
      end = after;
    }
    push(TokenKind::name, source_.substr(offset_, end - offset_));
    offset_ = end;
  }

  // Skips digits for which is_member holds, with single underscores between them.
  template <typename IsMember>
  [[nodiscard]] size_t skip_digits(size_t from, IsMember is_member) const {
    while (from < source_.size()) {
      if (is_member(source_[from])) {
        ++from;
      } else if (source_[from] == '_' && from + 1 < source_.size() &&
                 is_member(source_[from + 1]) && from > offset_) {
        from += 2;
      } else {
        break;
      }
    }
    return from;
  }

  // The end of the float literal at offset_, or 0 when there is none.
  [[nodiscard]] size_t match_float() const {
    if (offset_ > 0 && source_[offset_ - 1] == '.') return 0;  // a.1.2 are two integers
    const auto digits = [&](size_t from) { return skip_digits(from, is_digit); };
    const auto at = [&](size_t i) { return i < source_.size() ? source_[i] : '\0'; };
    size_t end = digits(offset_);
    bool is_float = false;
    if (at(end) == '.' && is_digit(at(end + 1))) {
      end = digits(end + 1);
      is_float = true;
    }
    if ((at(end) | 0x20) == 'e') {
      const size_t exponent = end + 1 + (is_sign(at(end + 1)) ? 1 : 0);
      if (is_digit(at(exponent))) {
        end = digits(exponent);
        is_float = true;
      }
    }
    return is_float ? end : 0;
  }

  void lex_number() {
    if (const size_t end = match_float(); end != 0) {
      std::string digits = source_.substr(offset_, end - offset_);
      std::erase(digits, '_');
      push(TokenKind::floating, digits).floating = std::strtod(digits.c_str(), nullptr);
      offset_ = end;
      return;
    }
    size_t end = offset_;
    size_t first = offset_;
    int base = 10;
    const char letter = static_cast<char>(peek(1) | 0x20);
    if (peek() == '0' && (letter == 'x' || letter == 'o' || letter == 'b')) {
      base = letter == 'x' ? 16 : letter == 'o' ? 8 : 2;
      first += 2;
      end = skip_digits(first, [&](char c) {
        const int value = is_digit(c) ? c - '0' : (c | 0x20) - 'a' + 10;
        return (is_digit(c) || ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')) && value < base;
      });
    }
    if (end <= first) {  // no digit after the prefix: "0", then a name
      base = 10;
      first = offset_;
      end = peek() == '0' ? skip_digits(offset_, [](char c) { return c == '0'; })
                          : skip_digits(offset_, is_digit);
    }
    std::string digits = source_.substr(first, end - first);
    std::erase(digits, '_');
    int64_t value = 0;
    if (std::from_chars(digits.data(), digits.data() + digits.size(), value, base).ec !=
        std::errc{}) {
      fail("integer literal does not fit into 64 bits");
    }
    push(TokenKind::integer, digits).integer = value;
    offset_ = end;
  }

  void lex_operator(std::string& open_brackets) {
    static constexpr std::array<std::string_view, 6> kTwo = {"//", "**", "==", "!=", ">=", "<="};
    static constexpr std::string_view kOne = "+-/*%~[](){}><=.:|,;";
    for (const auto symbol : kTwo) {
      if (looking_at(symbol)) {
        push(TokenKind::op, std::string(symbol));
        offset_ += 2;
        return;
      }
    }
    const char c = peek();
    if (kOne.find(c) == std::string_view::npos) {
      size_t after = offset_;
      (void)next_code_point(source_, after);
      fail(fmt::format("unexpected char '{}'", source_.substr(offset_, after - offset_)));
    }
    if (c == '(') open_brackets += ')';
    if (c == '[') open_brackets += ']';
    if (c == '{') open_brackets += '}';
    if (c == ')' || c == ']' || c == '}') {
      if (open_brackets.empty()) fail(fmt::format("unexpected '{}'", c));
      if (open_brackets.back() != c) {
        fail(fmt::format("unexpected '{}', expected '{}'", c, open_brackets.back()));
      }
      open_brackets.pop_back();
    }
    push(TokenKind::op, std::string(1, c));
    ++offset_;
  }

  // ---- string literals ----

  void lex_string(char quote) {
    size_t end = offset_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) fail(fmt::format("unexpected char '{}'", quote));
    push(TokenKind::string, unescape(source_.substr(offset_ + 1, end - offset_ - 1)));
    offset_ = end + 1;
  }

  std::string unescape(std::string_view raw) const {
    std::string text;
    for (size_t i = 0; i < raw.size(); ++i) {
      if (raw[i] != '\\' || i + 1 >= raw.size()) {
        text += raw[i];
        continue;
      }
      const char c = raw[++i];
      static constexpr std::string_view kNames = "abfnrtv\\'\"";
      static constexpr std::string_view kValues = "\a\b\f\n\r\t\v\\'\"";
      if (const size_t known = kNames.find(c); known != std::string_view::npos) {
        text += kValues[known];
      } else if (c == 'x' || c == 'u' || c == 'U') {
        i += append_code(text, raw.substr(i + 1), c == 'x' ? 2 : c == 'u' ? 4 : 8, 16);
      } else if (c >= '0' && c <= '7') {
        size_t digits = 1;
        while (digits < 3 && i + digits < raw.size() && raw[i + digits] >= '0' &&
               raw[i + digits] <= '7') {
          ++digits;
        }
        i += append_code(text, raw.substr(i), digits, 8) - 1;
      } else if (c == 'N') {
        fail("\\N{...} escapes are not supported");
      } else if (c != '\n') {  // an escaped newline is dropped, an unknown escape is kept
        text += '\\';
        text += c;
      }
    }
    return text;
  }

  // Appends the code point that the first `digits` characters of `raw` spell; returns `digits`.
  size_t append_code(std::string& text, std::string_view raw, size_t digits, int base) const {
    uint32_t code = 0;
    const auto number = raw.substr(0, digits);
    const auto [end, error] =
        std::from_chars(number.data(), number.data() + number.size(), code, base);
    if (number.size() < digits || error != std::errc{} || end != number.data() + digits) {
      fail("truncated escape in string literal");
    }
    if (code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) {
      fail("escape in string literal is not a character");
    }
    append_utf8(code, text);
    return digits;
  }

  std::string source_;
  size_t offset_ = 0;
  bool starts_line_ = true;  // the last tag ended with a newline, or no tag came yet
  std::vector<Token> tokens_;

  mutable size_t counted_ = 0;
  mutable size_t line_start_ = 0;
  mutable int line_ = 1;
};

}  // namespace

std::vector<Token> tokenize(std::string_view source) { return Lexer(source).run(); }

}  // namespace reprise::chat_template
