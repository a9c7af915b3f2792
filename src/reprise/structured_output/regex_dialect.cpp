#include "reprise/structured_output/regex_dialect.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "reprise/base/error.h"
#include "reprise/base/text/utf8.h"
#include "reprise/structured_output/character_set.h"
#include "reprise/structured_output/output_spec.h"

namespace reprise::structured_output {
namespace {

class RegexReader {
 public:
  RegexReader(std::string_view pattern, PatternContext context) : context_(context) {
    size_t at = 0;
    while (at < pattern.size()) {
      characters_.push_back(next_code_point(pattern, at));
    }
  }

  NormalisedRegex read() {
    Part part = alternatives(0);
    if (!at_end()) fail("an unmatched ')'");
    return {std::move(part.text), part.min_length, part.max_length};
  }

 private:
  /// A part of the pattern, rewritten; `cost` grows with the number of states that the backend will
  /// need for it.
  struct Part {
    std::string text;
    /// Repeating this form any number of times matches the same texts as repeating `text`, but one
    /// round never matches the empty text: (a?b*)* becomes (a|b)*. With empty rounds a text could
    /// be read in so many ways that a parser never ends. See Brueggemann-Klein, Regular expressions
    /// into finite automata, 1993: star normal form.
    std::string looped;
    int64_t cost = 0;
    bool is_empty = false;  // matches nothing but the empty text
    int64_t min_length = 0;
    std::optional<int64_t> max_length = 0;
  };

  [[nodiscard]] bool at_end() const { return next_ == characters_.size(); }
  [[nodiscard]] uint32_t peek() const { return at_end() ? 0 : characters_[next_]; }
  [[nodiscard]] bool next_is(char c) const {
    return !at_end() && peek() == static_cast<unsigned char>(c);
  }
  bool take(char c) {
    if (!next_is(c)) return false;
    ++next_;
    return true;
  }

  [[noreturn]] void fail(std::string_view what) const {
    throw InvalidArgument(fmt::format("the regular expression has {} at position {}", what, next_));
  }

  Part alternatives(int depth) {
    if (depth > kMaxNesting) fail(fmt::format("groups nested more than {} deep", kMaxNesting));
    std::vector<Part> branches{sequence(depth)};
    while (take('|')) branches.push_back(sequence(depth));
    bool has_empty = false;
    Part joined;
    size_t num_branches = 0;
    for (Part& branch : branches) {
      if (branch.is_empty) {
        has_empty = true;
        continue;
      }
      const std::string_view separator = num_branches++ == 0 ? "" : "|";
      joined.text += fmt::format("{}{}", separator, branch.text);
      joined.looped += fmt::format("{}{}", separator, branch.looped);
      joined.cost += branch.cost;
      joined.min_length =
          num_branches == 1 ? branch.min_length : std::min(joined.min_length, branch.min_length);
      if (!branch.max_length) joined.max_length.reset();
      if (joined.max_length) joined.max_length = std::max(*joined.max_length, *branch.max_length);
    }
    if (num_branches == 0) return {.is_empty = true};
    if (has_empty) {
      joined.text = fmt::format("(?:{})?", joined.text);
      joined.min_length = 0;
    }
    limit(joined.cost);
    return joined;
  }

  /// Anchors at the ends of a branch of the whole pattern change nothing, because the whole text
  /// must match anyway.
  Part sequence(int depth) {
    if (depth == 0) take('^');
    Part whole{.is_empty = true};
    while (!at_end() && !next_is('|') && !next_is(')')) {
      if (next_is('$') && depth == 0 &&
          (next_ + 1 == characters_.size() || characters_[next_ + 1] == '|')) {
        ++next_;
        continue;
      }
      const Part part = repeated(depth);
      if (part.is_empty) continue;
      whole.text += part.text;
      whole.looped += (whole.looped.empty() ? "" : "|") + part.looped;
      whole.cost += part.cost;
      whole.min_length += part.min_length;
      whole.max_length = whole.max_length && part.max_length
                             ? std::optional(*whole.max_length + *part.max_length)
                             : std::nullopt;
      whole.is_empty = false;
    }
    if (whole.min_length > 0) whole.looped = whole.text;
    limit(whole.cost);
    return whole;
  }

  Part repeated(int depth) {
    Part atom = this->atom(depth);
    Times times;
    if (take('*')) {
      times = Times::between(0, {});
    } else if (take('+')) {
      times = Times::between(1, {});
    } else if (take('?')) {
      times = Times::between(0, 1);
    } else if (next_is('{') && counts_follow()) {
      times = counts();
    } else {
      return atom;
    }
    take('?');  // laziness changes which match is found first, not which texts match
    if (next_is('*') || next_is('+') || next_is('?') || (next_is('{') && counts_follow())) {
      fail("two repetitions in a row");
    }
    if (atom.is_empty) return atom;
    if (times.most == 0) return {.is_empty = true};
    if (atom.min_length == 0) times = Times::between(0, times.most);
    if (!times.most && times.least <= 1) {
      atom.text = fmt::format("(?:{})", atom.looped);
    } else if (times.least > 1) {
      atom.looped = atom.text + times.text;
    }
    atom.text += times.text;
    atom.cost *= times.most.value_or(times.least + 1);
    limit(atom.cost);
    atom.min_length *= times.least;
    const bool is_bounded = times.most && atom.max_length;
    atom.max_length = is_bounded ? std::optional(*atom.max_length * *times.most) : std::nullopt;
    return atom;
  }

  void limit(int64_t cost) const {
    if (cost > kMaxRepetition) {
      fail(fmt::format("more than {} characters to match, repetitions counted,", kMaxRepetition));
    }
  }

  [[nodiscard]] bool counts_follow() const {
    return next_ + 1 < characters_.size() && characters_[next_ + 1] >= '0' &&
           characters_[next_ + 1] <= '9';
  }

  int64_t number() {
    int64_t value = 0;
    if (at_end() || peek() < '0' || peek() > '9') fail("a repetition without a number");
    while (!at_end() && peek() >= '0' && peek() <= '9') {
      value = value * 10 + static_cast<int64_t>(peek() - '0');
      if (value > kMaxRepetition) fail(fmt::format("a repetition above {}", kMaxRepetition));
      ++next_;
    }
    return value;
  }

  struct Times {
    std::string text;
    int64_t least = 0;
    std::optional<int64_t> most;

    static Times between(int64_t least, std::optional<int64_t> most) {
      if (!most && least <= 1) return {least == 0 ? "*" : "+", least, most};
      if (least == 0 && most == 1) return {"?", least, most};
      return {most ? fmt::format("{{{},{}}}", least, *most) : fmt::format("{{{},}}", least),
              least,
              most};
    }
  };

  Times counts() {
    ++next_;
    const int64_t least = number();
    std::optional<int64_t> most = least;
    if (take(',')) most = next_is('}') ? std::nullopt : std::optional(number());
    if (!take('}')) fail("a repetition without its '}'");
    if (most && *most < least) fail("a repetition whose end is below its start");
    return Times::between(least, most);
  }

  Part atom(int depth) {
    const uint32_t c = peek();
    if (c == '(') return group(depth);
    if (c == '*' || c == '+' || c == '?') fail("a repetition of nothing");
    if (c == '^' || c == '$') fail("an anchor that is not at an end");
    ++next_;
    if (c == '[') return write(bracket());
    if (c == '.') return write(line_ends().complement());
    if (c == '\\') return write(escape().inner);
    return write({{c, c}});
  }

  Part group(int depth) {
    ++next_;
    if (take('?')) {
      if (take('P')) {
        if (!next_is('<')) fail("a reference to a group");
      }
      if (take('<')) {
        if (next_is('=') || next_is('!')) fail("a look-behind, which is not regular,");
        while (!at_end() && !next_is('>')) ++next_;
        if (!take('>')) fail("a group name without its '>'");
      } else if (!take(':')) {
        fail("a look-ahead or flags, which are not supported,");
      }
    }
    Part inner = alternatives(depth + 1);
    if (!take(')')) fail("a group without its ')'");
    if (!inner.is_empty) inner.text = fmt::format("(?:{})", inner.text);
    return inner;
  }

  uint32_t hex(int num_digits) {
    uint32_t value = 0;
    for (int i = 0; i < num_digits; ++i, ++next_) {
      static constexpr std::u32string_view kHexDigits = U"0123456789abcdef";
      const uint32_t c = peek();
      const size_t digit = kHexDigits.find(c >= 'A' && c <= 'F' ? c | 0x20 : c);
      if (digit == kHexDigits.npos) fail("an escape with too few hexadecimal digits");
      value = value * 16 + static_cast<uint32_t>(digit);
    }
    return value;
  }

  Approximation escape() {
    if (at_end()) fail("a lone backslash");
    const uint32_t c = characters_[next_++];
    if (auto set = named_set(c)) return *set;
    const auto one = [](uint32_t code_point) {
      return Approximation::exactly(code_point, code_point);
    };
    static constexpr std::u32string_view kNames = U"nrtfv";
    if (const size_t known = kNames.find(c); known != kNames.npos) {
      return one(static_cast<unsigned char>("\n\r\t\f\v"[known]));
    }
    if (c == '0') return one(0);
    if (c == 'x' || c == 'u') return one(hex(c == 'x' ? 2 : 4));
    if ((c >= '1' && c <= '9') || (c | 0x20) == 'k')
      fail("a back reference, which is not regular,");
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) {
      fail(fmt::format("the escape \\{}, which is not supported,", static_cast<char>(c)));
    }
    return one(c);
  }

  CodePoints bracket() {
    const bool is_negated = take('^');
    Approximation set;
    bool is_first = true;
    while (is_first || !next_is(']')) {
      if (at_end()) fail("a '[' without its ']'");
      is_first = false;
      const bool is_escaped = next_is('\\');
      const uint32_t first = characters_[next_++];
      const Approximation low = is_escaped ? escape() : Approximation::exactly(first, first);
      const bool is_range =
          next_is('-') && next_ + 1 < characters_.size() && characters_[next_ + 1] != ']';
      if (!is_range) {
        set.add(low);
        continue;
      }
      ++next_;
      const bool high_is_escaped = next_is('\\');
      const uint32_t last = characters_[next_++];
      const Approximation high = high_is_escaped ? escape() : Approximation::exactly(last, last);
      const uint32_t from = single(low);
      const uint32_t to = single(high);
      if (from > to) fail("a range whose end is below its start");
      set.add(Approximation::exactly(from, to));
    }
    ++next_;
    return is_negated ? set.complement().inner : set.inner;
  }

  uint32_t single(const Approximation& set) const {
    const auto& ranges = set.outer.ranges();
    if (ranges.size() != 1 || ranges[0].first != ranges[0].second) fail("a range between sets");
    return ranges[0].first;
  }

  Part write(const CodePoints& set) const {
    if (set.empty()) fail("a set that no character is in");
    if (context_ == PatternContext::plain) return one_character(set_text(set));
    CodePoints as_is = set;
    std::string escapes;
    static const CodePoints kEscaped{{0, 0x1F}, {'"', '"'}, {'\\', '\\'}};
    for (uint32_t c = 0; c < 128; ++c) {
      if (!set.contains(c) || !json_escape(c)) continue;
      escapes += fmt::format("|\\u005c\\u{:04x}", static_cast<unsigned>(*json_escape(c)));
    }
    as_is = as_is.without(kEscaped);
    if (escapes.empty() && as_is.empty()) fail("control characters only, in a JSON string,");
    if (escapes.empty()) return one_character(set_text(as_is));
    const std::string unescaped = as_is.empty() ? std::string() : set_text(as_is);
    const std::string all = unescaped.empty() ? escapes.substr(1) : unescaped + escapes;
    return one_character(fmt::format("(?:{})", all));
  }

  static Part one_character(const std::string& text) {
    return {.text = text, .looped = text, .cost = 1, .min_length = 1, .max_length = 1};
  }

  PatternContext context_;
  std::vector<uint32_t> characters_;
  size_t next_ = 0;
};

}  // namespace

NormalisedRegex normalise_regex(std::string_view pattern, PatternContext context) {
  return RegexReader(pattern, context).read();
}

}  // namespace reprise::structured_output
