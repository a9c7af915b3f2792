#include "reprise/tokenizer/regex_dialect.h"

#include <fmt/format.h>

#include "reprise/base/error.h"

namespace reprise::tokenizer {
namespace {

constexpr std::string_view kSpaces =
    R"(\t-\r \x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
constexpr std::string_view kWords = R"(\p{L}\p{M}\p{N}\p{Pc})";

class Translator {
 public:
  explicit Translator(std::string_view pattern) : pattern_(pattern) {}

  std::string run() {
    while (position_ < pattern_.size()) {
      const char c = pattern_[position_];
      if (c == '\\') {
        escape();
      } else if (in_class_) {
        class_character(c);
      } else {
        character(c);
      }
    }
    return std::move(out_);
  }

 private:
  [[noreturn]] void refuse(std::string_view reason) const {
    throw InvalidArgument(fmt::format("{} at offset {} of the pattern", reason, position_));
  }

  void copy(size_t length) {
    out_.append(pattern_.substr(position_, length));
    position_ += length;
  }

  void escape() {
    if (position_ + 1 >= pattern_.size()) refuse("a lone backslash");
    const char kind = pattern_[position_ + 1];
    switch (kind) {
      case 's':
        replace(kSpaces, "[]");
        return;
      case 'w':
        replace(kWords, "[]");
        return;
      case 'S':
        if (in_class_) refuse("'\\S' inside a class is not supported");
        replace(kSpaces, "[^]");
        return;
      case 'W':
        if (in_class_) refuse("'\\W' inside a class is not supported");
        replace(kWords, "[^]");
        return;
      case 'h':
      case 'H':
        refuse("'\\h' is not supported (hexadecimal digit in one dialect, space in another)");
      case 'u':
        code_point();
        return;
      case 'k':
      case 'g':
        refuse("a back-reference or subexpression call is not supported");
      default:
        break;
    }
    if (!in_class_ && kind >= '1' && kind <= '9') refuse("a back-reference is not supported");
    copy(2);
  }

  /// `\uHHHH` is `\x{HHHH}` in PCRE2.
  void code_point() {
    const std::string_view digits = pattern_.substr(position_ + 2, 4);
    if (digits.size() < 4 || digits.find_first_not_of("0123456789abcdefABCDEF") != digits.npos) {
      refuse("'\\u' needs four hexadecimal digits");
    }
    out_.append(fmt::format("\\x{{{}}}", digits));
    position_ += 6;
  }

  /// Replaces an escape of two characters by a set. Outside of a class, `brackets` enclose the set.
  void replace(std::string_view set, std::string_view brackets) {
    if (!in_class_) out_.append(brackets.substr(0, brackets.size() - 1));
    out_.append(set);
    if (!in_class_) out_.push_back(']');
    position_ += 2;
  }

  void class_character(char c) {
    if (c == '[') {
      const size_t end = pattern_.find(":]", position_);
      if (pattern_.substr(position_, 2) != "[:" || end == std::string_view::npos) {
        refuse("a class nested in a class is not supported");
      }
      copy(end + 2 - position_);
      return;
    }
    if (pattern_.substr(position_, 2) == "&&") refuse("class intersection '&&' is not supported");
    if (c == ']') in_class_ = false;
    copy(1);
  }

  void character(char c) {
    if (c == '[') {
      in_class_ = true;
      copy(1);
      if (position_ < pattern_.size() && pattern_[position_] == '^') copy(1);
      if (position_ < pattern_.size() && pattern_[position_] == ']') copy(1);  // a first ] is plain
      return;
    }
    if (c == '(' && pattern_.substr(position_, 2) == "(?") {
      const std::string_view group = pattern_.substr(position_ + 2, 2);
      if (group.starts_with('R') || group.starts_with('&') || group.starts_with('P') ||
          group.starts_with('(') || group.starts_with('C') ||
          (!group.empty() && group[0] >= '0' && group[0] <= '9')) {
        refuse("a subexpression call or conditional group is not supported");
      }
    }
    if (c == '(' && pattern_.substr(position_, 2) == "(*") refuse("a '(*VERB)' is not supported");
    copy(1);
  }

  std::string_view pattern_;
  size_t position_ = 0;
  bool in_class_ = false;
  std::string out_;
};

}  // namespace

std::string translate_pattern(std::string_view pattern) { return Translator(pattern).run(); }

}  // namespace reprise::tokenizer
