#include "reprise/cli/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

namespace reprise::cli {

size_t terminal_width(int file_descriptor, size_t otherwise) {
  winsize size{};
  if (ioctl(file_descriptor, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return otherwise;
  return size.ws_col;
}

size_t help_width() { return std::clamp<size_t>(terminal_width(STDOUT_FILENO, 100), 40, 120); }

std::string wrap(std::string_view text, size_t first_column, size_t indent, size_t width) {
  std::string lines;
  size_t column = first_column;
  bool is_line_start = true;
  while (!text.empty()) {
    const size_t length = std::min(text.find(' '), text.size());
    if (!is_line_start && column + 1 + length > width) {
      lines += '\n' + std::string(indent, ' ');
      column = indent;
      is_line_start = true;
    }
    if (!is_line_start) lines += ' ';
    lines += text.substr(0, length);
    column += length + (is_line_start ? 0 : 1);
    is_line_start = false;
    text.remove_prefix(std::min(length + 1, text.size()));
  }
  return lines;
}

std::string_view cut(std::string_view text, size_t width) {
  size_t end = 0;
  for (size_t columns = 0; end < text.size(); ++end) {
    const bool starts_character = (static_cast<unsigned char>(text[end]) & 0xC0U) != 0x80U;
    if (starts_character && columns++ == width) break;
  }
  return text.substr(0, end);
}

std::string tenths_bar(size_t done, size_t total) {
  constexpr size_t kTenths = 10;
  const size_t filled = total == 0 ? 0 : std::min(kTenths, kTenths * done / total);
  return std::string(filled, '#') + std::string(kTenths - filled, '.');
}

}  // namespace reprise::cli
