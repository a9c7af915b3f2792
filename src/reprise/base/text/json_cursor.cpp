#include "reprise/base/text/json_cursor.h"

#include <fmt/format.h>

#include <charconv>

#include "reprise/base/error.h"
#include "reprise/base/text/utf8.h"

namespace reprise {

void JsonCursor::fail(std::string_view reason) const { fail_with(codes_.malformed, reason); }

void JsonCursor::fail_in_string() const {
  fail_with(codes_.truncated, "the JSON text ends inside a string");
}

void JsonCursor::fail_with(std::string_view code, std::string_view reason) const {
  throw FileError(code, path_, fmt::format("byte {}", position_), reason);
}

void JsonCursor::skip_spaces() noexcept {
  while (position_ < text_.size()) {
    const char c = text_[position_];
    if (c != ' ' && c != '\n' && c != '\r' && c != '\t') return;
    ++position_;
  }
}

char JsonCursor::peek() {
  skip_spaces();
  if (position_ == text_.size()) fail_with(codes_.truncated, "the JSON text ends too early");
  return text_[position_];
}

bool JsonCursor::consume(char wanted) {
  if (peek() != wanted) return false;
  ++position_;
  return true;
}

void JsonCursor::expect(char wanted) {
  if (!consume(wanted)) fail(fmt::format("not valid JSON: expected '{}'", wanted));
}

void JsonCursor::expect_end() {
  skip_spaces();
  if (position_ != text_.size()) fail("not valid JSON: text after the end of the document");
}

std::string_view JsonCursor::read_string(std::string& storage) {
  expect('"');
  const size_t start = position_;
  bool is_escaped = false;
  storage.clear();
  size_t copied = start;
  bool is_ascii = true;
  while (true) {
    if (position_ == text_.size()) fail_in_string();
    const char c = text_[position_];
    if (c == '"') break;
    if (static_cast<unsigned char>(c) < 0x20) fail("not valid JSON: control character in a string");
    if (static_cast<unsigned char>(c) >= 0x80) is_ascii = false;
    ++position_;
    if (c != '\\') continue;
    is_escaped = true;
    storage.append(text_.substr(copied, position_ - 1 - copied));
    read_escape(storage);
    copied = position_;
  }
  const std::string_view rest = text_.substr(copied, position_ - copied);
  const std::string_view raw = text_.substr(start, position_ - start);
  if (!is_ascii && !is_valid_utf8(raw)) fail("not valid JSON: a string that is not UTF-8");
  ++position_;
  if (!is_escaped) return raw;
  storage.append(rest);
  return storage;
}

void JsonCursor::read_escape(std::string& out) {
  if (position_ == text_.size()) fail_in_string();
  static constexpr std::string_view kNames = "\"\\/bfnrt";
  static constexpr std::string_view kValues = "\"\\/\b\f\n\r\t";
  const char kind = text_[position_++];
  if (const size_t known = kNames.find(kind); known != std::string_view::npos) {
    out.push_back(kValues[known]);
    return;
  }
  if (kind != 'u') fail("not valid JSON: unknown escape in a string");
  char32_t unit = read_hex4();
  if (unit >= 0xDC00 && unit <= 0xDFFF) fail("not valid JSON: lone surrogate in a string");
  if (unit >= 0xD800 && unit <= 0xDBFF) {
    if (text_.substr(position_, 2) != "\\u") fail("not valid JSON: lone surrogate in a string");
    position_ += 2;
    const char32_t low = read_hex4();
    if (low < 0xDC00 || low > 0xDFFF) fail("not valid JSON: lone surrogate in a string");
    unit = 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
  }
  append_utf8(unit, out);
}

char32_t JsonCursor::read_hex4() {
  if (text_.size() - position_ < 4) fail_in_string();
  uint32_t value = 0;
  const char* digits = text_.data() + position_;
  if (std::from_chars(digits, digits + 4, value, 16).ptr != digits + 4) {
    fail("not valid JSON: \\u needs four hexadecimal digits");
  }
  position_ += 4;
  return value;
}

uint64_t JsonCursor::read_unsigned(uint64_t limit, std::string_view code) {
  if (code.empty()) code = codes_.malformed;
  const char first = peek();
  uint64_t value = 0;
  const char* begin = text_.data() + position_;
  const char* last = text_.data() + text_.size();
  const auto [end, error] = std::from_chars(begin, last, value);
  const bool is_integer = end == last || (*end != '.' && *end != 'e' && *end != 'E');
  if (end == begin || !is_integer || (first == '0' && end - begin > 1)) {
    fail_with(code, "expected a non-negative integer");
  }
  if (error != std::errc() || value > limit) {
    fail_with(code, fmt::format("the integer here is too large, at most {} is accepted", limit));
  }
  position_ += static_cast<size_t>(end - begin);
  return value;
}

void JsonCursor::skip_string() {
  // \pre the cursor stands on an opening quote.
  ++position_;
  while (position_ < text_.size() && text_[position_] != '"') {
    position_ += text_[position_] == '\\' ? 2 : 1;
  }
  if (position_ >= text_.size()) {
    position_ = text_.size();
    fail_in_string();
  }
  ++position_;
}

std::string_view JsonCursor::skip_value() {
  static_cast<void>(peek());
  const size_t start = position_;
  int depth = 0;
  do {
    const char c = peek();
    switch (c) {
      case '"':
        skip_string();
        break;
      case '{':
      case '[':
        if (++depth > kMaxDepth) {
          fail_with(codes_.too_deep, fmt::format("nested deeper than {} levels", kMaxDepth));
        }
        ++position_;
        break;
      case '}':
      case ']':
        if (depth == 0) fail("not valid JSON: expected a value");
        --depth;
        ++position_;
        break;
      case ',':
      case ':':
        if (depth == 0) fail("not valid JSON: expected a value");
        ++position_;
        break;
      default: {
        // A number or a literal: up to the next structural character.
        const size_t end = text_.find_first_of(",:]}[{\" \n\r\t", position_);
        position_ = end == std::string_view::npos ? text_.size() : end;
      }
    }
  } while (depth > 0);
  return text_.substr(start, position_ - start);
}

}  // namespace reprise
