#include "reprise/structured_output/character_set.h"

#include <utf8proc.h>

#include <array>
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

std::optional<CodePoints> general_category(std::string_view name) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 12> kLongNames = {
      {{"Letter", "L"},
       {"Lowercase_Letter", "Ll"},
       {"Uppercase_Letter", "Lu"},
       {"Mark", "M"},
       {"Number", "N"},
       {"Decimal_Number", "Nd"},
       {"Punctuation", "P"},
       {"Symbol", "S"},
       {"Separator", "Z"},
       {"Space_Separator", "Zs"},
       {"Other", "C"},
       {"Control", "Cc"}}};
  for (const auto& [long_name, short_name] : kLongNames) {
    if (name == long_name) name = short_name;
  }
  if (name.empty() || name.size() > 2) return {};
  CodePoints set;
  uint32_t first = 0;
  bool was_in = false;
  for (uint32_t c = 0; c <= CodePoints::kLast + 1; ++c) {
    const bool is_in =
        c <= CodePoints::kLast &&
        std::string_view(utf8proc_category_string(static_cast<int32_t>(c))).starts_with(name);
    if (is_in && !was_in) first = c;
    if (!is_in && was_in) set.add(first, c - 1);
    was_in = is_in;
  }
  if (set.empty()) return {};
  return set;
}

}  // namespace reprise::structured_output
