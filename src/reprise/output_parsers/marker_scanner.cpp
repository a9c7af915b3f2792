#include "reprise/output_parsers/marker_scanner.h"

#include <algorithm>
#include <utility>

namespace reprise::output_parsers {

size_t partial_marker(std::string_view text, std::string_view marker) {
  for (size_t size = std::min(text.size(), marker.size() - 1); size > 0; --size) {
    if (text.substr(text.size() - size) == marker.substr(0, size)) return size;
  }
  return 0;
}

bool MarkerScanner::take_until(std::string_view marker, std::string& before) {
  if (const size_t at = held_.find(marker); at != std::string::npos) {
    before.append(held_, 0, at);
    held_.erase(0, at + marker.size());
    return true;
  }
  const size_t num_safe = held_.size() - partial_marker(held_, marker);
  before.append(held_, 0, num_safe);
  held_.erase(0, num_safe);
  return false;
}

std::string MarkerScanner::take_all() { return std::exchange(held_, {}); }

size_t end_of_json(std::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if ((c == '}' || c == ']') && --depth == 0) {
      return i + 1;
    }
  }
  return std::string_view::npos;
}

}  // namespace reprise::output_parsers
