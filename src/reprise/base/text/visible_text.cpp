#include "reprise/base/text/visible_text.h"

#include <fmt/format.h>

#include "reprise/base/text/utf8.h"

namespace reprise {
namespace {

bool is_visible(char32_t c) noexcept {
  const bool is_control = c < 0x20 || (c >= 0x7F && c < 0xA0);
  const bool is_direction = c == 0x061C || c == 0x200E || c == 0x200F ||
                            (c >= 0x202A && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069);
  const bool ends_line = c == 0x2028 || c == 0x2029;
  return !is_control && !is_direction && !ends_line;
}

}  // namespace

bool is_visible_text(std::string_view text) noexcept {
  if (!is_valid_utf8(text)) return false;
  for (size_t at = 0; at < text.size();) {
    if (!is_visible(next_code_point(text, at))) return false;
  }
  return true;
}

std::string visible_text(std::string_view text, size_t max_bytes) {
  std::string shown;
  for (size_t at = 0; at < text.size();) {
    if (at >= max_bytes) return shown + "...";
    const char32_t c = next_code_point(text, at);
    if (is_visible(c)) {
      append_utf8(c, shown);
    } else {
      shown += fmt::format("\\u{{{:x}}}", static_cast<uint32_t>(c));
    }
  }
  return shown;
}

}  // namespace reprise
