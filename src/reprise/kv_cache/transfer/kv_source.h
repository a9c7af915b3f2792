#pragma once

#include <cstdint>
#include <string>

namespace reprise::kv_cache {

/// Where an image is.
struct KvSource {
  std::string host;
  int32_t port = 0;
  std::string id;

  friend bool operator==(const KvSource&, const KvSource&) = default;
};

}  // namespace reprise::kv_cache
