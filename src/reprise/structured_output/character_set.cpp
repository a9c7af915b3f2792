#include "reprise/structured_output/character_set.h"

#include <fmt/format.h>

#include <initializer_list>
#include <string_view>
#include <utility>

namespace reprise::structured_output {
namespace {

const CodePoints kDigits{{'0', '9'}};
const CodePoints kWords{{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
const CodePoints kSpaces{{'\t', '\r'}, {' ', ' '}};
const CodePoints kLineEnds{{'\n', '\n'}, {'\r', '\r'}, {0x85, 0x85}, {0x2028, 0x2029}};

CodePoints with(CodePoints set, std::initializer_list<CodePoints::Range> more) {
  for (const auto& [first, last] : more) set.add(first, last);
  return set;
}

std::string code(uint32_t c) {
  return c < 0x10000 ? fmt::format("\\u{:04x}", c) : fmt::format("\\U{:08x}", c);
}

// Cuts the range where UTF-8 sequences get longer, because not all readers do that correctly.
std::string range(uint32_t first, uint32_t last) {
  for (const uint32_t longer : {0x80U, 0x800U, 0x10000U}) {
    if (first < longer && last >= longer) return range(first, longer - 1) + range(longer, last);
  }
  return first == last ? code(first) : code(first) + "-" + code(last);
}

}  // namespace

std::optional<Approximation> named_set(uint32_t letter) {
  switch (letter) {
    case 'd':
    case 'D': {
      const Approximation set{kDigits, with(kDigits, {{0x600, CodePoints::kLast}})};
      return letter == 'd' ? set : set.complement();
    }
    case 'w':
    case 'W': {
      const Approximation set{kWords, with(kWords, {{0x80, CodePoints::kLast}})};
      return letter == 'w' ? set : set.complement();
    }
    case 's':
    case 'S': {
      const Approximation set{kSpaces,
                              with(kSpaces,
                                   {{0x1C, 0x1F},
                                    {0x85, 0x85},
                                    {0xA0, 0xA0},
                                    {0x1680, 0x1680},
                                    {0x180E, 0x180E},
                                    {0x2000, 0x200F},
                                    {0x2028, 0x2029},
                                    {0x202F, 0x202F},
                                    {0x205F, 0x205F},
                                    {0x3000, 0x3000},
                                    {0xFEFF, 0xFEFF}})};
      return letter == 's' ? set : set.complement();
    }
    default:
      return {};
  }
}

const CodePoints& line_ends() { return kLineEnds; }

std::optional<char> json_escape(uint32_t code_point) {
  static constexpr std::u32string_view kEscaped = U"\"\\\b\f\n\r\t";
  const size_t known = kEscaped.find(code_point);
  return known == kEscaped.npos ? std::nullopt : std::optional("\"\\bfnrt"[known]);
}

// Readers of the result take all digits after \x, and a '^' in front means a complement. So the
// code points that readers write with \x come last, and '^' follows other characters.
std::string set_text(const CodePoints& set) {
  if (set.ranges().size() == 1 && set.ranges()[0].first == set.ranges()[0].second) {
    return code(set.ranges()[0].first);
  }
  static const CodePoints kPrintable{{' ', '~'}};
  static const CodePoints kHexadecimal{{0, 0x1F}, {0x7F, 0xFF}};
  CodePoints rest = set.without(kPrintable);
  const CodePoints printable = set.without(kPrintable.complement());
  const CodePoints hexadecimal = rest.without(kHexadecimal.complement());
  rest = rest.without(kHexadecimal);
  std::string text;
  std::string circumflex;  // the range that starts with '^', up to '~' at most
  for (const auto& [first, last] : printable.ranges()) {
    (first == '^' ? circumflex : text) += range(first, last);
  }
  if (!text.empty()) text += std::exchange(circumflex, "");
  for (const auto& [first, last] : rest.ranges()) text += range(first, last);
  if (!text.empty()) text += std::exchange(circumflex, "");
  for (const auto& [first, last] : hexadecimal.ranges()) text += range(first, last);
  if (circumflex.empty()) return "[" + text + "]";
  // No other character can stand before '^', so it becomes an alternative of its own.
  const uint32_t last = printable.ranges()[0].second;
  std::string apart = code('^');
  if (last > '^') apart += fmt::format("|[{}]", range('_', last));
  if (!text.empty()) apart += "|[" + text + "]";
  return "(?:" + apart + ")";
}

}  // namespace reprise::structured_output
