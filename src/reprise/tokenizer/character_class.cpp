#include "reprise/tokenizer/character_class.h"

#include <utf8proc.h>

namespace reprise::tokenizer {
namespace {

utf8proc_category_t category(char32_t code_point) noexcept {
  return utf8proc_category(static_cast<utf8proc_int32_t>(code_point));
}

bool is_between(char32_t value, char32_t low, char32_t high) noexcept {
  return value >= low && value <= high;
}

}  // namespace

bool is_whitespace(char32_t c) noexcept {
  if (c < 0x80) return c == ' ' || is_between(c, '\t', '\r');
  return c == 0x85 || c == 0xA0 || c == 0x1680 || is_between(c, 0x2000, 0x200A) || c == 0x2028 ||
         c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_numeric(char32_t c) noexcept {
  if (c < 0x80) return is_between(c, '0', '9');
  return is_between(category(c), UTF8PROC_CATEGORY_ND, UTF8PROC_CATEGORY_NO);
}

bool is_other(char32_t c) noexcept {
  return is_between(category(c), UTF8PROC_CATEGORY_CC, UTF8PROC_CATEGORY_CO);
}

bool is_nonspacing_mark(char32_t c) noexcept { return category(c) == UTF8PROC_CATEGORY_MN; }

bool is_mark(char32_t c) noexcept {
  return is_between(category(c), UTF8PROC_CATEGORY_MN, UTF8PROC_CATEGORY_ME);
}

bool is_punctuation(char32_t c) noexcept {
  if (c < 0x80) {
    return is_between(c, '!', '/') || is_between(c, ':', '@') || is_between(c, '[', '`') ||
           is_between(c, '{', '~');
  }
  return is_between(category(c), UTF8PROC_CATEGORY_PC, UTF8PROC_CATEGORY_PO);
}

bool is_word(char32_t c) noexcept {
  const utf8proc_category_t kind = category(c);
  if (is_between(kind, UTF8PROC_CATEGORY_LU, UTF8PROC_CATEGORY_NL)) return true;  // L*, M*, Nd, Nl
  if (kind == UTF8PROC_CATEGORY_PC || c == 0x200C || c == 0x200D) return true;
  // Other_Alphabetic without the characters of category M: the circled and squared letters.
  return is_between(c, 0x24B6, 0x24E9) || is_between(c, 0x1F130, 0x1F149) ||
         is_between(c, 0x1F150, 0x1F169) || is_between(c, 0x1F170, 0x1F189);
}

}  // namespace reprise::tokenizer
