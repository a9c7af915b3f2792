#include "reprise/server/http/request_query.h"

#include <algorithm>

namespace reprise::server {
namespace {

constexpr size_t kMaxNameBytes = 64;  // limit of a name that goes into a header and into the log

std::string decode_form(std::string_view text) {
  std::string spaced(text);
  std::replace(spaced.begin(), spaced.end(), '+', ' ');
  return percent_decode(spaced);
}

}  // namespace

std::string percent_decode(std::string_view text) {
  const auto digit = [](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
  };
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size() && digit(text[i + 1]) >= 0 &&
        digit(text[i + 2]) >= 0) {
      decoded += static_cast<char>(digit(text[i + 1]) * 16 + digit(text[i + 2]));
      i += 2;
    } else {
      decoded += text[i];
    }
  }
  return decoded;
}

std::vector<std::string> query_values(std::string_view query, std::string_view name) {
  std::vector<std::string> values;
  while (!query.empty()) {
    const std::string_view pair = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(pair.size() + 1, query.size()));
    const size_t equals = std::min(pair.find('='), pair.size());
    if (decode_form(pair.substr(0, equals)) != name) continue;
    values.push_back(decode_form(pair.substr(std::min(equals + 1, pair.size()))));
  }
  return values;
}

std::vector<std::string> unknown_names(std::string_view query,
                                       std::span<const std::string_view> known,
                                       size_t most) {
  std::vector<std::string> names;
  while (!query.empty() && names.size() < most) {
    const std::string_view pair = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(pair.size() + 1, query.size()));
    const std::string_view name = pair.substr(0, pair.find('='));
    if (name.empty() || std::ranges::find(known, decode_form(name)) != known.end()) continue;
    names.emplace_back(name.substr(0, kMaxNameBytes));
  }
  return names;
}

}  // namespace reprise::server
