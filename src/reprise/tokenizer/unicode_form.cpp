#include "reprise/tokenizer/unicode_form.h"

#include <utf8proc.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "reprise/base/assert.h"
#include "reprise/base/text/utf8.h"

namespace reprise::tokenizer {
namespace {

bool is_ascii(char c) { return static_cast<unsigned char>(c) < 0x80; }

class FormWriter {
 public:
  explicit FormWriter(UnicodeForm form)
      : options_(UTF8PROC_STABLE),
        composes_(form == UnicodeForm::nfc || form == UnicodeForm::nfkc) {
    // utf8proc decomposes nothing unless COMPOSE or DECOMPOSE is set.
    options_ |= UTF8PROC_DECOMPOSE;
    if (form == UnicodeForm::nfkc || form == UnicodeForm::nfkd) options_ |= UTF8PROC_COMPAT;
  }

  void append(std::string_view text, BoundedText& out) {
    code_points_.clear();
    for (size_t position = 0; position < text.size();) {
      decompose(next_code_point(text, position));
      out.check(code_points_.size());
    }
    sort_marks();
    size_t count = code_points_.size();
    if (composes_) {
      const utf8proc_ssize_t composed = utf8proc_normalize_utf32(
          code_points_.data(),
          static_cast<utf8proc_ssize_t>(count),
          static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE));
      REPRISE_ASSERT(composed >= 0, "utf8proc: {}", utf8proc_errmsg(composed));
      count = static_cast<size_t>(composed);
    }
    std::string character;
    for (size_t i = 0; i < count; ++i) {
      character.clear();
      append_utf8(static_cast<char32_t>(code_points_[i]), character);
      out.append(character);
    }
  }

 private:
  static utf8proc_propval_t combining_class(utf8proc_int32_t code_point) {
    return utf8proc_get_property(code_point)->combining_class;
  }

  void decompose(char32_t code_point) {
    if (code_point < 0x80) {
      code_points_.push_back(static_cast<utf8proc_int32_t>(code_point));
      return;
    }
    // A code point decomposes into 18 code points at most (U+FDFA).
    utf8proc_int32_t parts[32];
    int last_boundclass = 0;
    const utf8proc_ssize_t count =
        utf8proc_decompose_char(static_cast<utf8proc_int32_t>(code_point),
                                parts,
                                32,
                                static_cast<utf8proc_option_t>(options_),
                                &last_boundclass);
    REPRISE_ASSERT(
        count >= 0 && count <= 32, "utf8proc: U+{:X}", static_cast<uint32_t>(code_point));
    code_points_.insert(code_points_.end(), parts, parts + count);
  }

  void sort_marks() {
    const auto is_mark = [](utf8proc_int32_t c) { return c >= 0x300 && combining_class(c) != 0; };
    const auto comes_first = [](utf8proc_int32_t a, utf8proc_int32_t b) {
      return combining_class(a) < combining_class(b);
    };
    auto begin = code_points_.begin();
    while ((begin = std::find_if(begin, code_points_.end(), is_mark)) != code_points_.end()) {
      const auto end = std::find_if_not(begin, code_points_.end(), is_mark);
      if (end - begin > 1) std::stable_sort(begin, end, comes_first);
      begin = end;
    }
  }

  int options_;
  bool composes_;
  std::vector<utf8proc_int32_t> code_points_;
};

}  // namespace

std::string to_unicode_form(std::string_view text, UnicodeForm form, size_t max_bytes) {
  BoundedText out(max_bytes);
  out.reserve(text.size());
  FormWriter writer(form);
  size_t begin = 0;
  while (begin < text.size()) {
    // ASCII stays unchanged, except that its last character may compose with the next one.
    size_t plain_end = begin;
    while (plain_end < text.size() && is_ascii(text[plain_end])) ++plain_end;
    if (plain_end < text.size() && plain_end > begin) --plain_end;
    out.append(text.substr(begin, plain_end - begin));
    if (plain_end == text.size()) break;
    // The part with other characters ends before the next two ASCII characters in a row.
    size_t end = plain_end + 1;
    while (end < text.size() &&
           !(is_ascii(text[end]) && (end + 1 == text.size() || is_ascii(text[end + 1])))) {
      ++end;
    }
    writer.append(text.substr(plain_end, end - plain_end), out);
    begin = end;
  }
  return std::move(out).take();
}

}  // namespace reprise::tokenizer
