#include "reprise/base/python_literal.h"

#include <cctype>
#include <string>
#include <utility>
namespace reprise {
namespace {

bool is_in_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

/// Writes a Python literal as JSON, token by token. If the text is not a Python literal, the result
/// is not JSON.
class LiteralRewriter {
 public:
  explicit LiteralRewriter(std::string_view text) : rest_(text) {}

  std::string rewrite() {
    while (!rest_.empty()) {
      const char c = rest_.front();
      if (c == '\'' || c == '"') {
        take_string(c);
      } else if (is_in_word(c)) {
        take_word();
      } else {
        take_mark(c);
      }
    }
    return std::move(json_);
  }

 private:
  void take_string(char quote) {
    rest_.remove_prefix(1);
    json_ += '"';
    while (!rest_.empty() && rest_.front() != quote) {
      const bool is_escape = rest_.front() == '\\' && rest_.size() > 1;
      const std::string_view character = rest_.substr(0, is_escape ? 2 : 1);
      if (character == "\\'") {
        json_ += '\'';
      } else if (character == "\"") {
        json_ += "\\\"";
      } else {
        json_ += character;
      }
      rest_.remove_prefix(character.size());
    }
    if (rest_.empty()) return;  // the string does not end, so parsing the JSON will fail
    rest_.remove_prefix(1);
    json_ += '"';
  }

  void take_word() {
    size_t length = 0;
    while (length < rest_.size() && is_in_word(rest_[length])) ++length;
    const std::string_view word = rest_.substr(0, length);
    if (word == "True") {
      json_ += "true";
    } else if (word == "False") {
      json_ += "false";
    } else if (word == "None") {
      json_ += "null";
    } else {
      json_ += word;
    }
    rest_.remove_prefix(length);
  }

  void take_mark(char c) {
    const bool closes = c == ')' || c == ']' || c == '}';
    if (closes) drop_last_comma();
    json_ += c == '(' ? '[' : c == ')' ? ']' : c;
    rest_.remove_prefix(1);
  }

  // "[1,]" and "(1,)" are lists of one value, but "[,]" is nothing.
  void drop_last_comma() {
    constexpr const char* kSpace = " \t\n";
    const size_t comma = json_.find_last_not_of(kSpace);
    if (comma == std::string::npos || comma == 0 || json_[comma] != ',') return;
    const size_t value = json_.find_last_not_of(kSpace, comma - 1);
    if (value != std::string::npos && json_[value] != '[' && json_[value] != '{') {
      json_.erase(comma);
    }
  }

  std::string_view rest_;
  std::string json_;
};

}  // namespace

Json parse_json_or_python(std::string_view text, std::string_view where) {
  if (!Json::accept(text)) {
    const std::string json = LiteralRewriter(text).rewrite();
    if (Json::accept(json)) return parse_json(json, where);
  }
  return parse_json(text, where);
}

Json parse_json_or_text(std::string_view text, std::string_view where) {
  if (Json::accept(text)) return parse_json(text, where);
  const std::string json = LiteralRewriter(text).rewrite();
  if (Json::accept(json)) return parse_json(json, where);
  return std::string(text);
}

}  // namespace reprise
