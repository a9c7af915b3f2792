#include "reprise/structured_output/regex_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "reprise/base/error.h"
#include "reprise/base/text/utf8.h"
#include "reprise/structured_output/output_spec.h"

namespace reprise::structured_output {
namespace {

using Kind = RegexPart::Kind;

RegexPart anchor(Kind kind) {
  RegexPart part{.kind = kind};
  part.looks_around = true;
  part.can_be_empty = true;
  return part;
}

class PatternReader {
 public:
  explicit PatternReader(std::string_view pattern) {
    size_t at = 0;
    while (at < pattern.size()) characters_.push_back(next_code_point(pattern, at));
  }

  RegexPart read() {
    RegexPart part = alternatives(0);
    if (!at_end()) fail("an unmatched ')'");
    return part;
  }

 private:
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

  RegexPart alternatives(int depth) {
    if (depth > kMaxNesting) fail(fmt::format("groups nested more than {} deep", kMaxNesting));
    RegexPart whole{.kind = Kind::alternatives};
    do {
      RegexPart branch = sequence(depth);
      whole.looks_around = whole.looks_around || branch.looks_around;
      whole.can_be_empty = whole.can_be_empty || branch.can_be_empty;
      whole.parts.push_back(std::move(branch));
    } while (take('|'));
    return whole.parts.size() == 1 ? std::move(whole.parts[0]) : std::move(whole);
  }

  RegexPart sequence(int depth) {
    RegexPart whole{.kind = Kind::sequence};
    whole.can_be_empty = true;
    while (!at_end() && !next_is('|') && !next_is(')')) {
      RegexPart part = repeated(depth);
      whole.looks_around = whole.looks_around || part.looks_around;
      whole.can_be_empty = whole.can_be_empty && part.can_be_empty;
      whole.parts.push_back(std::move(part));
    }
    return whole;
  }

  RegexPart repeated(int depth) {
    RegexPart atom = this->atom(depth);
    RegexPart times{.kind = Kind::repetition};
    if (take('*')) {
    } else if (take('+')) {
      times.least = 1;
    } else if (take('?')) {
      times.most = 1;
    } else if (next_is('{') && counts_follow()) {
      counts(times);
    } else {
      return atom;
    }
    take('?');  // laziness decides which match is found first, but not which texts match
    if (next_is('*') || next_is('+') || next_is('?') || (next_is('{') && counts_follow())) {
      fail("two repetitions in a row");
    }
    if (atom.is_zero_width()) {
      // Repeating a condition more than once changes nothing, so once is enough.
      times.most = std::min<int64_t>(times.most.value_or(1), 1);
      times.least = std::min<int64_t>(times.least, 1);
    } else if (atom.looks_around &&
               (atom.can_be_empty || times.most.value_or(times.least) > kMaxUnrolled)) {
      fail(
          "a repetition of look-ahead or anchors that may take no character, or with a large "
          "count,");
    }
    times.looks_around = atom.looks_around;
    times.can_be_empty = atom.can_be_empty || times.least == 0;
    times.parts.push_back(std::move(atom));
    return times;
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

  void counts(RegexPart& times) {
    ++next_;
    times.least = number();
    times.most = times.least;
    if (take(',')) times.most = next_is('}') ? std::nullopt : std::optional(number());
    if (!take('}')) fail("a repetition without its '}'");
    if (times.most && *times.most < times.least) fail("a repetition whose end is below its start");
  }

  RegexPart atom(int depth) {
    const uint32_t c = peek();
    if (c == '(') return group(depth);
    if (c == '*' || c == '+' || c == '?') fail("a repetition of nothing");
    ++next_;
    if (c == '^') return anchor(Kind::text_start);
    if (c == '$') return anchor(Kind::text_end);
    if (c == '[') return one_of(bracket());
    if (c == '.') return one_of({line_ends().complement(), CodePoints{{'\n', '\n'}}.complement()});
    if (c != '\\') return one_of(Approximation::exactly(c, c));
    if (take('A')) return anchor(Kind::text_start);
    if (take('Z') || take('z')) return anchor(Kind::text_end);
    if (next_is('b') || next_is('B')) fail("a word boundary, which is not supported,");
    return one_of(escape());
  }

  RegexPart one_of(Approximation set) const {
    if (set.inner.empty()) fail("a set that no character is in");
    RegexPart part{.kind = Kind::set};
    part.set = std::move(set);
    return part;
  }

  RegexPart group(int depth) {
    ++next_;
    std::optional<bool> is_negative;
    if (take('?')) {
      if (take('P')) {
        if (!next_is('<')) fail("a reference to a group");
      }
      if (take('=')) {
        is_negative = false;
      } else if (take('!')) {
        is_negative = true;
      } else if (take('<')) {
        if (next_is('=') || next_is('!')) fail("a look-behind, which is not supported,");
        while (!at_end() && !next_is('>')) ++next_;
        if (!take('>')) fail("a group name without its '>'");
      } else if (!take(':')) {
        fail("flags, which are not supported,");
      }
    }
    RegexPart inner = alternatives(depth + 1);
    if (!take(')')) fail("a group without its ')'");
    if (!is_negative) return inner;
    RegexPart ahead = anchor(Kind::look_ahead);
    ahead.is_negative = *is_negative;
    ahead.parts.push_back(std::move(inner));
    return ahead;
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

  /// \u{1F600}
  uint32_t braced_hex() {
    uint32_t value = 0;
    while (!at_end() && !next_is('}')) value = std::min(value * 16 + hex(1), CodePoints::kLast + 1);
    if (!take('}') || value > CodePoints::kLast) fail("an escape of no code point");
    return value;
  }

  Approximation property(bool is_negated) {
    if (!take('{')) fail("an escape \\p without its '{'");
    std::string name;
    while (!at_end() && !next_is('}')) name += static_cast<char>(characters_[next_++]);
    if (!take('}')) fail("an escape \\p without its '}'");
    const std::optional<CodePoints> set = general_category(name);
    if (!set) {
      fail(
          fmt::format("the property {:?}, which is not supported (general categories such as L, Lu "
                      "and Nd are),",
                      name));
    }
    const Approximation exact{*set, *set};
    return is_negated ? exact.complement() : exact;
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
    if (c == 'u' && take('{')) return one(braced_hex());
    if (c == 'x' || c == 'u') return one(hex(c == 'x' ? 2 : 4));
    if (c == 'p' || c == 'P') return property(c == 'P');
    if ((c >= '1' && c <= '9') || c == 'k') fail("a back reference, which is not regular,");
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) {
      fail(fmt::format("the escape \\{}, which is not supported,", static_cast<char>(c)));
    }
    return one(c);
  }

  Approximation bracket() {
    const bool is_negated = take('^');
    Approximation set;
    bool is_first = true;
    while (is_first || !next_is(']')) {
      if (at_end()) fail("a '[' without its ']'");
      is_first = false;
      const Approximation low = member();
      const bool is_range =
          next_is('-') && next_ + 1 < characters_.size() && characters_[next_ + 1] != ']';
      if (!is_range) {
        set.add(low);
        continue;
      }
      ++next_;
      const uint32_t from = single(low);
      const uint32_t to = single(member());
      if (from > to) fail("a range whose end is below its start");
      set.add(Approximation::exactly(from, to));
    }
    ++next_;
    return is_negated ? set.complement() : set;
  }

  Approximation member() {
    if (!next_is('\\')) {
      const uint32_t c = characters_[next_++];
      return Approximation::exactly(c, c);
    }
    ++next_;
    if (take('b')) return Approximation::exactly('\b', '\b');
    return escape();
  }

  uint32_t single(const Approximation& set) const {
    const auto& ranges = set.outer.ranges();
    if (ranges.size() != 1 || ranges[0].first != ranges[0].second) fail("a range between sets");
    return ranges[0].first;
  }

  static constexpr int64_t kMaxUnrolled = 256;

  std::vector<uint32_t> characters_;
  size_t next_ = 0;
};

}  // namespace

bool RegexPart::is_zero_width() const {
  switch (kind) {
    case Kind::set:
      return false;
    case Kind::sequence:
    case Kind::alternatives:
    case Kind::repetition:
      return std::all_of(
          parts.begin(), parts.end(), [](const RegexPart& part) { return part.is_zero_width(); });
    case Kind::look_ahead:
    case Kind::text_start:
    case Kind::text_end:
      return true;
  }
  return false;
}

RegexPart read_regex(std::string_view pattern) { return PatternReader(pattern).read(); }

}  // namespace reprise::structured_output
