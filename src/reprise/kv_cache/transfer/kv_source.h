#pragma once

#include <compare>
#include <cstdint>
#include <string>

namespace reprise::kv_cache {

/// Where a producer listens.
struct KvProducer {
  std::string host;
  int32_t port = 0;

  friend auto operator<=>(const KvProducer&, const KvProducer&) = default;
};

/// Where an image is.
struct KvSource {
  KvProducer producer;
  std::string id;

  friend bool operator==(const KvSource&, const KvSource&) = default;
};

}  // namespace reprise::kv_cache
