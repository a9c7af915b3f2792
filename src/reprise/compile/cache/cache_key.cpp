#include "reprise/compile/cache/cache_key.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <iterator>

#include "reprise/base/assert.h"

namespace reprise::compile {
namespace {

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '.';
}

std::string digest(std::string_view bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

}  // namespace

CacheKey& CacheKey::add(std::string_view name, std::string_view value) {
  REPRISE_ASSERT(!name.empty() && std::all_of(name.begin(), name.end(), is_name_character),
                 "'{}' cannot name a field of a cache key",
                 name);
  text_.append(name).append("=");
  for (const char c : value) {
    if (c == '\\') {
      text_.append("\\\\");
    } else if (c == '\n') {
      text_.append("\\n");
    } else if (c >= ' ' && c <= '~') {
      text_.push_back(c);
    } else {
      fmt::format_to(std::back_inserter(text_), "\\x{:02x}", static_cast<unsigned char>(c));
    }
  }
  text_.push_back('\n');
  return *this;
}

CacheKey& CacheKey::add_digest(std::string_view name, std::string_view value) {
  return add(name, digest(value));
}

std::string CacheKey::hash() const { return digest(text_); }

}  // namespace reprise::compile
