#include "reprise/output_parsers/marker_scanner.h"

#include <algorithm>
#include <utility>

namespace reprise::output_parsers {

size_t partial_marker(std::string_view text, std::string_view marker) {
  if (marker.empty()) return 0;
  for (size_t size = std::min(text.size(), marker.size() - 1); size > 0; --size) {
    if (text.substr(text.size() - size) == marker.substr(0, size)) return size;
  }
  return 0;
}

bool MarkerScanner::take_until(std::string_view marker, std::string& before) {
  return take_until_any({&marker, 1}, before).has_value();
}

std::optional<size_t> MarkerScanner::take_until_any(std::span<const std::string_view> markers,
                                                    std::string& before) {
  size_t first = std::string::npos;
  size_t found = markers.size();
  size_t num_held = 0;
  for (size_t i = 0; i < markers.size(); ++i) {
    if (markers[i].empty()) continue;
    if (const size_t at = held_.find(markers[i]); at < first) {
      first = at;
      found = i;
    }
    num_held = std::max(num_held, partial_marker(held_, markers[i]));
  }
  const size_t num_safe = found < markers.size() ? first : held_.size() - num_held;
  before.append(held_, 0, num_safe);
  held_.erase(0, num_safe);
  if (found == markers.size()) return {};
  held_.erase(0, markers[found].size());
  return found;
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
