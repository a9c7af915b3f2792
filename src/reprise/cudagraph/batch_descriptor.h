#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace reprise::cudagraph {

/// The padded shape class of a batch; together with the runtime mode it is the key of a graph.
/// A plain value: cheap to copy, comparable, hashable.
struct BatchDescriptor {
  int32_t num_tokens = 0;
  /// The padded number of requests. Unset means any number, as in PIECEWISE keys, where attention
  /// runs outside the graph.
  std::optional<int32_t> num_reqs;
  /// Every request has as many tokens as the decode query length.
  bool uniform = false;
  bool has_lora = false;
  /// The number of active adapters that this graph was recorded for; 0 = none.
  int32_t num_active_loras = 0;

  friend bool operator==(const BatchDescriptor&, const BatchDescriptor&) = default;
};

/// "tokens=16 reqs=4 uniform lora=2"; "reqs=*" when unset.
[[nodiscard]] inline std::string to_string(const BatchDescriptor& descriptor) {
  std::string text = fmt::format("tokens={} reqs=", descriptor.num_tokens);
  text += descriptor.num_reqs ? std::to_string(*descriptor.num_reqs) : "*";
  if (descriptor.uniform) text += " uniform";
  if (descriptor.has_lora) text += fmt::format(" lora={}", descriptor.num_active_loras);
  return text;
}

}  // namespace reprise::cudagraph

template <>
struct std::hash<reprise::cudagraph::BatchDescriptor> {
  size_t operator()(const reprise::cudagraph::BatchDescriptor& d) const noexcept {
    // The splitmix64 finaliser over the packed fields spreads neighbouring sizes over the buckets.
    const uint64_t reqs = d.num_reqs ? static_cast<uint32_t>(*d.num_reqs) : 0xffffffffULL;
    uint64_t x = (static_cast<uint64_t>(static_cast<uint32_t>(d.num_tokens)) << 32) | reqs;
    x ^= (static_cast<uint64_t>(static_cast<uint32_t>(d.num_active_loras)) << 2 |
          (d.uniform ? 2U : 0U) | (d.has_lora ? 1U : 0U)) *
         0x9e3779b97f4a7c15ULL;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return static_cast<size_t>(x ^ (x >> 31));
  }
};
