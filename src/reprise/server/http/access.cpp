#include "reprise/server/http/access.h"

#include <algorithm>

#include "reprise/server/http/api_error.h"

namespace reprise::server {
namespace {

/// The running time does not depend on the position of the first difference.
bool equals_in_constant_time(std::string_view given, std::string_view key) {
  unsigned difference = given.size() == key.size() ? 0 : 1;
  for (size_t i = 0; i < given.size(); ++i) {
    const char expected = key.empty() ? '\0' : key[i % key.size()];
    difference |= static_cast<unsigned char>(given[i]) ^ static_cast<unsigned char>(expected);
  }
  return difference == 0;
}

}  // namespace

std::optional<size_t> ApiKeys::find(std::string_view authorization) const {
  // lower case: the names of HTTP schemes ignore case
  constexpr std::string_view kBearer = "bearer ";
  std::optional<size_t> found;
  if (authorization.size() < kBearer.size() ||
      !std::equal(kBearer.begin(), kBearer.end(), authorization.begin(), [](char scheme, char c) {
        return scheme == (c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c);
      })) {
    return found;
  }
  const std::string_view given = authorization.substr(kBearer.size());
  for (size_t i = 0; i < keys_.size(); ++i) {
    if (equals_in_constant_time(given, keys_[i])) found = i;
  }
  return found;
}

void ApiKeys::check(std::string_view authorization) const {
  if (!keys_.empty() && !find(authorization)) throw ApiError(401, "Unauthorized");
}

}  // namespace reprise::server
