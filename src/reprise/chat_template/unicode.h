#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "reprise/base/text/utf8.h"

/// Python's functions on code points: classes, case, search. Strings here are UTF-8 bytes, strings
/// in Python are code points; base/text/utf8.h converts between them.
namespace reprise::chat_template::unicode {

/// True for the white space of Python's str.isspace() and of the regular expression \s.
[[nodiscard]] bool is_space(char32_t c);
/// False for the code points that repr() escapes: controls, separators, surrogates, private use,
/// unassigned.
[[nodiscard]] bool is_printable(char32_t c);
[[nodiscard]] bool is_letter(char32_t c);
[[nodiscard]] bool is_decimal(char32_t c);
[[nodiscard]] bool is_upper(char32_t c);
[[nodiscard]] bool is_lower(char32_t c);
/// True for \w of a Python regular expression: letters, digits, underscore.
[[nodiscard]] bool is_word(char32_t c);

void append_upper(std::string& text, char32_t c);
void append_lower(std::string& text, char32_t c);
void append_title(std::string& text, char32_t c);
[[nodiscard]] std::string upper(std::string_view text);
[[nodiscard]] std::string lower(std::string_view text);

/// The ends of a text that strip() strips.
enum class Side { left, right, both };
[[nodiscard]] std::string_view strip(std::string_view text, Side side = Side::both);
/// Strips every code point that occurs in `chars`.
[[nodiscard]] std::string_view strip(std::string_view text, std::string_view chars, Side side);

/// First occurrence at or after `from`, or npos. Takes linear time for every needle, also a hostile
/// one.
[[nodiscard]] size_t find(std::string_view text, std::string_view needle, size_t from = 0);
/// Last occurrence, or npos. Takes linear time.
[[nodiscard]] size_t rfind(std::string_view text, std::string_view needle);

/// True for the line ends of str.splitlines(). The caller handles \r\n.
[[nodiscard]] bool is_line_end(char32_t c);

}  // namespace reprise::chat_template::unicode
