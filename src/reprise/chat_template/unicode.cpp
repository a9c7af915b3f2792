#include "reprise/chat_template/unicode.h"

#include <string.h>  // memmem
#include <utf8proc.h>

#include <algorithm>

namespace reprise::chat_template::unicode {
namespace {

utf8proc_category_t category(char32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

}  // namespace

bool is_space(char32_t c) {
  if (c <= 0x20) return c == 0x20 || (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x1F);
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
         c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_printable(char32_t c) {
  if (c < 0x7F) return c >= 0x20;
  // In utf8proc's enum the categories Zs, Zl, Zp, Cc, Cf, Cs, Co are the last ones.
  const auto kind = category(c);
  return kind != UTF8PROC_CATEGORY_CN && kind < UTF8PROC_CATEGORY_ZS;
}

bool is_letter(char32_t c) {
  const auto kind = category(c);  // Lu, Ll, Lt, Lm, Lo are neighbours in the enum
  return kind >= UTF8PROC_CATEGORY_LU && kind <= UTF8PROC_CATEGORY_LO;
}

bool is_decimal(char32_t c) { return category(c) == UTF8PROC_CATEGORY_ND; }
bool is_upper(char32_t c) { return category(c) == UTF8PROC_CATEGORY_LU; }
bool is_lower(char32_t c) { return category(c) == UTF8PROC_CATEGORY_LL; }
bool is_word(char32_t c) {
  return c == '_' || is_letter(c) || is_decimal(c) || category(c) == UTF8PROC_CATEGORY_NL ||
         category(c) == UTF8PROC_CATEGORY_NO;
}

void append_upper(std::string& text, char32_t c) {
  // The only mapping to several characters that ordinary texts need; all others map one to one.
  if (c == 0xDF) {
    text += "SS";
  } else {
    append_utf8(static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c))), text);
  }
}

void append_lower(std::string& text, char32_t c) {
  if (c == 0x130) {  // capital i with dot: i + combining dot above
    text += "i\xCC\x87";
  } else {
    append_utf8(static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))), text);
  }
}

void append_title(std::string& text, char32_t c) {
  if (c == 0xDF) {
    text += "Ss";
  } else {
    append_utf8(static_cast<char32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(c))), text);
  }
}

std::string upper(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for (size_t at = 0; at < text.size();) append_upper(result, next_code_point(text, at));
  return result;
}

std::string lower(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for (size_t at = 0; at < text.size();) append_lower(result, next_code_point(text, at));
  return result;
}

namespace {

template <typename Predicate>
std::string_view strip_if(std::string_view text, Side side, Predicate strips) {
  size_t begin = 0;
  if (side != Side::right) {
    while (begin < text.size()) {
      size_t after = begin;
      if (!strips(next_code_point(text, after))) break;
      begin = after;
    }
  }
  size_t end = text.size();
  if (side != Side::left) {
    while (end > begin) {
      size_t start = std::max(begin, previous_boundary(text, end));
      size_t after = start;
      char32_t c = next_code_point(text, after);
      if (after != end) {  // the bytes before `end` are not a valid sequence: take one byte
        start = end - 1;
        c = kReplacementCharacter;
      }
      if (!strips(c)) break;
      end = start;
    }
  }
  return text.substr(begin, end - begin);
}

}  // namespace

std::string_view strip(std::string_view text, Side side) {
  return strip_if(text, side, [](char32_t c) { return is_space(c); });
}

std::string_view strip(std::string_view text, std::string_view chars, Side side) {
  std::u32string set;
  for (size_t offset = 0; offset < chars.size();) set.push_back(next_code_point(chars, offset));
  std::sort(set.begin(), set.end());
  return strip_if(
      text, side, [&](char32_t c) { return std::binary_search(set.begin(), set.end(), c); });
}

size_t find(std::string_view text, std::string_view needle, size_t from) {
  if (from > text.size()) return std::string_view::npos;
  if (needle.empty()) return from;
  // memmem is linear for every needle (two-way search); std::string_view::find is not.
  const void* hit = ::memmem(text.data() + from, text.size() - from, needle.data(), needle.size());
  if (hit == nullptr) return std::string_view::npos;
  return static_cast<size_t>(static_cast<const char*>(hit) - text.data());
}

size_t rfind(std::string_view text, std::string_view needle) {
  if (needle.size() > text.size()) return std::string_view::npos;
  if (needle.empty()) return text.size();
  const std::string reversed_text(text.rbegin(), text.rend());
  const std::string reversed_needle(needle.rbegin(), needle.rend());
  const size_t hit = find(reversed_text, reversed_needle);
  return hit == std::string_view::npos ? hit : text.size() - hit - needle.size();
}

bool is_line_end(char32_t c) {
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 ||
         c == 0x2029;
}

}  // namespace reprise::chat_template::unicode
