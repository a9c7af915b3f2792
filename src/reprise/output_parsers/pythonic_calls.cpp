#include "reprise/output_parsers/pythonic_calls.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace reprise::output_parsers {
namespace {

constexpr int kMaxPythonicDepth = 32;

bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-';
}

/// Appends a code point as UTF-8; surrogates become the replacement character.
void append_code_point(uint32_t c, std::string& out) {
  if (c > 0x10FFFF || (c >= 0xD800 && c <= 0xDFFF)) c = 0xFFFD;
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xC0 | (c >> 6));
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    out += static_cast<char>(0xE0 | (c >> 12));
    out += static_cast<char>(0x80 | ((c >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | (c >> 18));
    out += static_cast<char>(0x80 | ((c >> 12) & 0x3F));
    out += static_cast<char>(0x80 | ((c >> 6) & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  }
}

/// A recursive-descent reader; every function returns false or nullopt at the first text that does
/// not fit.
class PythonicReader {
 public:
  explicit PythonicReader(std::string_view text) : text_(text) {}

  std::vector<Call> read_calls() {
    const bool has_bracket = take('[');
    std::vector<Call> calls;
    for (skip_separators(); !at_end() && peek() != ']'; skip_separators()) {
      std::optional<Call> call = read_call();
      if (!call) return {};
      calls.push_back(*std::move(call));
    }
    if (has_bracket != take(']')) return {};
    return at_end() ? calls : std::vector<Call>{};
  }

 private:
  std::optional<Call> read_call() {
    std::string name = read_name();
    while (!name.empty() && take('.')) name += '.' + read_name();
    if (name.empty() || !take('(')) return {};
    Json arguments = Json::object();
    while (!take(')')) {
      const std::string key = read_name();
      if (key.empty() || !take('=') || arguments.contains(key)) return {};
      if (!read_value(arguments[key], 0)) return {};
      if (take(',')) continue;
      if (!take(')')) return {};
      break;
    }
    return Call{std::move(name), compact(arguments)};
  }

  bool read_value(Json& out, int depth) {
    if (depth > kMaxPythonicDepth || at_end()) return false;
    const char c = peek();
    if (c == '"' || c == '\'') return read_text(out);
    if (c == '[' || c == '(') return read_list(out, depth);
    if (c == '{') return read_dict(out, depth);
    return read_word(out);
  }

  bool read_text(Json& out) {
    const char quote = text_[at_++];
    std::string value;
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == quote) {
        ++at_;
        out = std::move(value);
        return true;
      }
      if (c != '\\') {
        value += c;
      } else if (++at_ >= text_.size() || !read_escape(value)) {
        return false;
      }
    }
    return false;
  }

  /// Reads the escape whose letter is at `at_`; afterwards `at_` is at the escape's last character.
  bool read_escape(std::string& value) {
    const char c = text_[at_];
    constexpr std::string_view kLetters = "ntrbf0\\'\"/";
    constexpr std::string_view kMeanings("\n\t\r\b\f\0\\'\"/", 10);
    if (const size_t i = kLetters.find(c); i != std::string_view::npos) {
      value += kMeanings[i];
      return true;
    }
    const size_t num_digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (num_digits == 0) {  // Python keeps an unknown escape as it is
      value += '\\';
      value += c;
      return true;
    }
    uint32_t code = 0;
    for (size_t i = 0; i < num_digits; ++i) {
      if (++at_ >= text_.size()) return false;
      const size_t digit =
          std::string_view("0123456789abcdef")
              .find(static_cast<char>(text_[at_] >= 'A' && text_[at_] <= 'F' ? text_[at_] + 32
                                                                             : text_[at_]));
      if (digit == std::string_view::npos) return false;
      code = code * 16 + static_cast<uint32_t>(digit);
    }
    append_code_point(code, value);
    return true;
  }

  bool read_list(Json& out, int depth) {
    const char end = text_[at_++] == '[' ? ']' : ')';
    out = Json::array();
    while (!take(end)) {
      if (!read_value(out.emplace_back(), depth + 1)) return false;
      if (!take(',')) return take(end);
      skip_blanks();
    }
    return true;
  }

  bool read_dict(Json& out, int depth) {
    ++at_;
    out = Json::object();
    while (!take('}')) {
      skip_blanks();
      Json key;
      if (!read_value(key, depth + 1) || !take(':')) return false;
      skip_blanks();
      const std::string name = key.is_string() ? key.get<std::string>() : compact(key);
      if (!read_value(out[name], depth + 1)) return false;
      if (!take(',')) return take('}');
    }
    return true;
  }

  /// Reads a number or a constant.
  bool read_word(Json& out) {
    const size_t end = text_.find_first_of(" \t\r\n,)]}:", at_);
    const std::string_view word = text_.substr(at_, end - at_);
    at_ += word.size();
    if (word == "True" || word == "true") {
      out = true;
    } else if (word == "False" || word == "false") {
      out = false;
    } else if (word == "None" || word == "null") {
      out = nullptr;
    } else if (std::optional<Json> number = json_of(word.starts_with('+') ? word.substr(1) : word);
               number && number->is_number()) {
      out = *std::move(number);
    } else {
      return false;
    }
    return true;
  }

  std::string read_name() {
    skip_blanks();
    const size_t begin = at_;
    while (!at_end() && is_name_char(peek())) ++at_;
    return std::string(text_.substr(begin, at_ - begin));
  }

  bool take(char wanted) {
    skip_blanks();
    if (at_end() || peek() != wanted) return false;
    ++at_;
    skip_blanks();
    return true;
  }
  void skip_blanks() {
    while (!at_end() && kBlanks.find(peek()) != std::string_view::npos) ++at_;
  }
  void skip_separators() {
    while (!at_end() &&
           (kBlanks.find(peek()) != std::string_view::npos || peek() == ',' || peek() == ';'))
      ++at_;
  }
  [[nodiscard]] bool at_end() const { return at_ >= text_.size(); }
  [[nodiscard]] char peek() const { return text_[at_]; }

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

std::vector<Call> read_pythonic_calls(std::string_view text) {
  if (text.size() > kMaxCallBytes) return {};
  return PythonicReader(text).read_calls();
}

size_t end_of_pythonic_list(std::string_view text) {
  int depth = 0;
  char quote = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote != 0) {
      if (c == '\\') ++i;
      if (c == quote) quote = 0;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '[' || c == '(' || c == '{') {
      ++depth;
    } else if ((c == ']' || c == ')' || c == '}') && --depth == 0) {
      return i + 1;
    }
  }
  return std::string_view::npos;
}

bool may_begin_pythonic_list(std::string_view text) {
  if (text.empty()) return true;
  if (text[0] != '[') return false;
  size_t at = text.find_first_not_of(kBlanks, 1);
  if (at == std::string_view::npos) return true;
  const size_t name = at;
  while (at < text.size() && (is_name_char(text[at]) || text[at] == '.')) ++at;
  return at == text.size() || (at > name && text[at] == '(');
}

}  // namespace reprise::output_parsers
