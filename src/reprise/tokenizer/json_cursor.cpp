#include "reprise/tokenizer/json_cursor.h"

#include <fmt/format.h>

#include "reprise/base/error.h"
#include "reprise/tokenizer/utf8.h"

namespace reprise::tokenizer {

void JsonCursor::fail(std::string_view reason) const { fail_with("E_TOKENIZER", reason); }

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
  if (position_ == text_.size()) fail_with("E_TRUNCATED", "the JSON text ends too early");
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
    if (position_ == text_.size()) fail_with("E_TRUNCATED", "the JSON text ends inside a string");
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
  if (position_ == text_.size()) fail_with("E_TRUNCATED", "the JSON text ends inside a string");
  const char kind = text_[position_++];
  switch (kind) {
    case '"':
      out.push_back('"');
      return;
    case '\\':
      out.push_back('\\');
      return;
    case '/':
      out.push_back('/');
      return;
    case 'b':
      out.push_back('\b');
      return;
    case 'f':
      out.push_back('\f');
      return;
    case 'n':
      out.push_back('\n');
      return;
    case 'r':
      out.push_back('\r');
      return;
    case 't':
      out.push_back('\t');
      return;
    case 'u':
      break;
    default:
      fail("not valid JSON: unknown escape in a string");
  }
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
  if (text_.size() - position_ < 4) fail_with("E_TRUNCATED", "the JSON text ends inside a string");
  char32_t value = 0;
  for (int i = 0; i < 4; ++i) {
    const char c = text_[position_++];
    int digit = 0;
    if (c >= '0' && c <= '9') {
      digit = c - '0';
    } else if (c >= 'a' && c <= 'f') {
      digit = c - 'a' + 10;
    } else if (c >= 'A' && c <= 'F') {
      digit = c - 'A' + 10;
    } else {
      fail("not valid JSON: \\u needs four hexadecimal digits");
    }
    value = value << 4 | static_cast<char32_t>(digit);
  }
  return value;
}

uint32_t JsonCursor::read_unsigned(uint32_t limit) {
  const char first = peek();
  if (first < '0' || first > '9') fail("expected a non-negative integer");
  uint64_t value = 0;
  const size_t start = position_;
  while (position_ < text_.size() && text_[position_] >= '0' && text_[position_] <= '9') {
    value = value * 10 + static_cast<uint64_t>(text_[position_] - '0');
    if (value > limit)
      fail(fmt::format("the integer here is too large, at most {} is accepted", limit));
    ++position_;
  }
  const char next = position_ < text_.size() ? text_[position_] : ' ';
  if (next == '.' || next == 'e' || next == 'E' || (first == '0' && position_ - start > 1)) {
    fail("expected a non-negative integer");
  }
  return static_cast<uint32_t>(value);
}

void JsonCursor::skip_string() {
  // Only called on an opening quote.
  ++position_;
  while (position_ < text_.size() && text_[position_] != '"') {
    position_ += text_[position_] == '\\' ? 2 : 1;
  }
  if (position_ >= text_.size()) {
    position_ = text_.size();
    fail_with("E_TRUNCATED", "the JSON text ends inside a string");
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
          fail_with("E_DEPTH", fmt::format("nested deeper than {} levels", kMaxDepth));
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

}  // namespace reprise::tokenizer
