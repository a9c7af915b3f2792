#include "reprise/chat_template/utf8.h"

#include <string.h>  // memmem
#include <utf8proc.h>

#include <algorithm>

namespace reprise::chat_template::utf8 {
namespace {

constexpr char32_t kReplacement = 0xFFFD;

// Length of the valid sequence at `offset`, 0 when there is none.
// Source: table 3-7 of the Unicode standard.
size_t sequence_length(std::string_view text, size_t offset) {
  const auto byte = [&](size_t i) {
    return offset + i < text.size() ? static_cast<unsigned char>(text[offset + i]) : 0u;
  };
  const auto is_continuation = [&](size_t i) { return (byte(i) & 0xC0u) == 0x80u; };
  const unsigned lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead < 0xC2 || lead > 0xF4 || !is_continuation(1)) return 0;
  if (lead < 0xE0) return 2;
  if (!is_continuation(2)) return 0;
  if (lead < 0xF0) {
    const bool is_overlong = lead == 0xE0 && byte(1) < 0xA0;
    const bool is_surrogate = lead == 0xED && byte(1) > 0x9F;
    return is_overlong || is_surrogate ? 0 : 3;
  }
  const bool is_overlong = lead == 0xF0 && byte(1) < 0x90;
  const bool is_too_large = lead == 0xF4 && byte(1) > 0x8F;
  return !is_continuation(3) || is_overlong || is_too_large ? 0 : 4;
}

utf8proc_category_t category(char32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

}  // namespace

char32_t next(std::string_view text, size_t& offset) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[offset + i]); };
  const size_t length = sequence_length(text, offset);
  char32_t code_point = kReplacement;
  if (length == 1) {
    code_point = byte(0);
  } else if (length == 2) {
    code_point = ((byte(0) & 0x1Fu) << 6) | (byte(1) & 0x3Fu);
  } else if (length == 3) {
    code_point = ((byte(0) & 0x0Fu) << 12) | ((byte(1) & 0x3Fu) << 6) | (byte(2) & 0x3Fu);
  } else if (length == 4) {
    code_point = ((byte(0) & 0x07u) << 18) | ((byte(1) & 0x3Fu) << 12) | ((byte(2) & 0x3Fu) << 6) |
                 (byte(3) & 0x3Fu);
  }
  offset += std::max<size_t>(1, length);
  return code_point;
}

size_t count(std::string_view text) {
  size_t n = 0;
  for (size_t offset = 0; offset < text.size(); ++n) {
    offset += std::max<size_t>(1, sequence_length(text, offset));
  }
  return n;
}

size_t offset_of(std::string_view text, size_t index) {
  size_t offset = 0;
  for (; index > 0 && offset < text.size(); --index) {
    offset += std::max<size_t>(1, sequence_length(text, offset));
  }
  return offset;
}

bool is_valid(std::string_view text) {
  for (size_t offset = 0; offset < text.size();) {
    const size_t length = sequence_length(text, offset);
    if (length == 0) return false;
    offset += length;
  }
  return true;
}

void append(std::string& text, char32_t code_point) {
  utf8proc_uint8_t bytes[4];
  const auto length = utf8proc_encode_char(static_cast<utf8proc_int32_t>(code_point), bytes);
  text.append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(length));
}

bool is_space(char32_t c) {
  if (c <= 0x20) return c == 0x20 || (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x1F);
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
         c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_printable(char32_t c) {
  if (c < 0x7F) return c >= 0x20;
  switch (category(c)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS:
      return false;
    default:
      return true;
  }
}

bool is_letter(char32_t c) {
  switch (category(c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return true;
    default:
      return false;
  }
}

bool is_decimal(char32_t c) { return category(c) == UTF8PROC_CATEGORY_ND; }
bool is_upper(char32_t c) { return category(c) == UTF8PROC_CATEGORY_LU; }
bool is_lower(char32_t c) { return category(c) == UTF8PROC_CATEGORY_LL; }
bool is_word(char32_t c) {
  return c == '_' || is_letter(c) || is_decimal(c) || category(c) == UTF8PROC_CATEGORY_NL ||
         category(c) == UTF8PROC_CATEGORY_NO;
}

void append_upper(std::string& text, char32_t c) {
  // The one full (one-to-many) mapping that occurs in ordinary prose; the rest are simple.
  if (c == 0xDF) {
    text += "SS";
  } else {
    append(text, static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c))));
  }
}

void append_lower(std::string& text, char32_t c) {
  if (c == 0x130) {  // capital i with dot: i + combining dot above
    text += "i\xCC\x87";
  } else {
    append(text, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))));
  }
}

void append_title(std::string& text, char32_t c) {
  if (c == 0xDF) {
    text += "Ss";
  } else {
    append(text, static_cast<char32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(c))));
  }
}

std::string upper(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for (size_t offset = 0; offset < text.size();) append_upper(result, next(text, offset));
  return result;
}

std::string lower(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for (size_t offset = 0; offset < text.size();) append_lower(result, next(text, offset));
  return result;
}

namespace {

template <typename Predicate>
std::string_view strip_if(std::string_view text, Side side, Predicate strips) {
  size_t begin = 0;
  if (side != Side::right) {
    while (begin < text.size()) {
      size_t after = begin;
      if (!strips(next(text, after))) break;
      begin = after;
    }
  }
  size_t end = text.size();
  if (side != Side::left) {
    while (end > begin) {
      size_t start = end - 1;
      while (start > begin && end - start < 4 &&
             (static_cast<unsigned char>(text[start]) & 0xC0) == 0x80) {
        --start;
      }
      size_t after = start;
      char32_t c = next(text, after);
      if (after != end) {  // not one valid sequence: the last byte stands alone
        start = end - 1;
        c = kReplacement;
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
  for (size_t offset = 0; offset < chars.size();) set.push_back(next(chars, offset));
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

}  // namespace reprise::chat_template::utf8
