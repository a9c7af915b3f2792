#pragma once

#include <cstddef>
#include <string>
#include <string_view>

/// Strings are UTF-8 bytes here and code points in Python; these functions are the bridge. A byte
/// that is not part of valid UTF-8 counts as one code point, U+FFFD.
namespace reprise::chat_template::utf8 {

[[nodiscard]] size_t count(std::string_view text);
/// Decodes the code point at `offset` and moves `offset` past it. \pre offset < text.size()
char32_t next(std::string_view text, size_t& offset);
void append(std::string& text, char32_t code_point);
/// Byte offset of code point `index`; text.size() when index is the length.
[[nodiscard]] size_t offset_of(std::string_view text, size_t index);
[[nodiscard]] bool is_valid(std::string_view text);

/// What Python's str.isspace() and the regular expression \s call white space.
[[nodiscard]] bool is_space(char32_t c);
/// False for what repr() escapes: controls, separators, surrogates, private use, unassigned.
[[nodiscard]] bool is_printable(char32_t c);
[[nodiscard]] bool is_letter(char32_t c);
[[nodiscard]] bool is_decimal(char32_t c);
[[nodiscard]] bool is_upper(char32_t c);
[[nodiscard]] bool is_lower(char32_t c);
/// \w of a Python regular expression: letters, digits, underscore.
[[nodiscard]] bool is_word(char32_t c);

void append_upper(std::string& text, char32_t c);
void append_lower(std::string& text, char32_t c);
void append_title(std::string& text, char32_t c);
[[nodiscard]] std::string upper(std::string_view text);
[[nodiscard]] std::string lower(std::string_view text);

/// Which ends strip() works on.
enum class Side { left, right, both };
[[nodiscard]] std::string_view strip(std::string_view text, Side side = Side::both);
/// Strips every code point that occurs in `chars`.
[[nodiscard]] std::string_view strip(std::string_view text, std::string_view chars, Side side);

/// First occurrence at or after `from`, npos if none. Linear also for hostile needles.
[[nodiscard]] size_t find(std::string_view text, std::string_view needle, size_t from = 0);
/// Last occurrence, npos if none. Linear.
[[nodiscard]] size_t rfind(std::string_view text, std::string_view needle);

/// Is this one of the line ends of str.splitlines()? (\r\n is handled by the caller.)
[[nodiscard]] bool is_line_end(char32_t c);

}  // namespace reprise::chat_template::utf8
