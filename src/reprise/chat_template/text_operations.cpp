#include "reprise/chat_template/text_operations.h"

#include "reprise/chat_template/unicode.h"

namespace reprise::chat_template {

std::string replace_text(Sandbox& sandbox,
                         std::string_view text,
                         std::string_view old_part,
                         std::string_view new_part,
                         int64_t count) {
  sandbox.charge_scan(text.size());
  uint64_t left = count < 0 ? UINT64_MAX : static_cast<uint64_t>(count);
  std::string result;
  size_t offset = 0;
  const auto append = [&](std::string_view part) {
    sandbox.check_text_size(result.size() + part.size());
    result.append(part);
  };
  if (old_part.empty()) {  // an empty text occurs before every code point and at the end
    for (; left > 0; --left) {
      append(new_part);
      if (offset == text.size()) return result;
      const size_t start = offset;
      (void)next_code_point(text, offset);
      append(text.substr(start, offset - start));
    }
    append(text.substr(offset));
    return result;
  }
  for (; left > 0; --left) {
    const size_t hit = unicode::find(text, old_part, offset);
    if (hit == std::string_view::npos) break;
    append(text.substr(offset, hit - offset));
    append(new_part);
    offset = hit + old_part.size();
  }
  append(text.substr(offset));
  return result;
}

std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends) {
  std::vector<std::string_view> lines;
  size_t start = 0;
  for (size_t offset = 0; offset < text.size();) {
    const size_t end = offset;
    const char32_t c = next_code_point(text, offset);
    if (!unicode::is_line_end(c)) continue;
    if (c == '\r' && offset < text.size() && text[offset] == '\n') ++offset;
    lines.push_back(text.substr(start, (keep_ends ? offset : end) - start));
    start = offset;
  }
  if (start < text.size()) lines.push_back(text.substr(start));
  return lines;
}

std::string capitalize_text(std::string_view text) {
  std::string result;
  size_t offset = 0;
  if (!text.empty()) unicode::append_title(result, next_code_point(text, offset));
  while (offset < text.size()) unicode::append_lower(result, next_code_point(text, offset));
  return result;
}

std::string title_text(std::string_view text) {
  std::string result;
  bool is_inside_word = false;
  for (size_t offset = 0; offset < text.size();) {
    const char32_t c = next_code_point(text, offset);
    is_inside_word ? unicode::append_lower(result, c) : unicode::append_title(result, c);
    is_inside_word = unicode::is_upper(c) || unicode::is_lower(c);
  }
  return result;
}

std::string swap_case(std::string_view text) {
  std::string result;
  for (size_t offset = 0; offset < text.size();) {
    const char32_t c = next_code_point(text, offset);
    unicode::is_upper(c) ? unicode::append_lower(result, c) : unicode::append_upper(result, c);
  }
  return result;
}

std::string join_texts(Sandbox& sandbox,
                       std::string_view separator,
                       const std::vector<std::string>& parts) {
  uint64_t total = parts.empty() ? 0 : separator.size() * (parts.size() - 1);
  for (const auto& part : parts) total += part.size();
  sandbox.check_text_size(total);
  std::string result;
  result.reserve(total);
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) result += separator;
    result += parts[i];
  }
  return result;
}

std::string pad_text(Sandbox& sandbox,
                     std::string_view text,
                     int64_t width,
                     std::string_view fill,
                     Justify justify) {
  const auto length = static_cast<int64_t>(count_code_points(text));
  if (width <= length) return std::string(text);
  const auto missing = static_cast<uint64_t>(width - length);
  sandbox.check_text_size(missing);
  sandbox.check_text_size(text.size() + missing * fill.size());
  uint64_t left = 0;
  if (justify == Justify::right) left = missing;
  if (justify == Justify::format_center) left = missing / 2;
  // Source: str.center of CPython. If the padding is odd, the extra blank goes left for an odd
  // width.
  if (justify == Justify::center) left = missing / 2 + (missing & static_cast<uint64_t>(width) & 1);
  std::string result;
  for (uint64_t i = 0; i < left; ++i) result += fill;
  result += text;
  for (uint64_t i = left; i < missing; ++i) result += fill;
  return result;
}

}  // namespace reprise::chat_template
