#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "reprise/cudagraph/cudagraph_mode.h"

namespace reprise::cudagraph {

/// The padded shape of a batch. A descriptor and a runtime mode together are the key of a graph. A
/// value type: cheap to copy, comparable and hashable.
struct BatchDescriptor {
  int32_t num_tokens = 0;
  /// The padded number of requests. Unset: any number. PIECEWISE keys leave it unset, because
  /// attention, the only work that depends on it, runs outside of their graphs.
  std::optional<int32_t> num_reqs;
  /// Every request has exactly the decode query length of tokens.
  bool uniform = false;
  bool has_lora = false;
  /// The number of active LoRA adapters for which the graph was captured; 0: none.
  int32_t num_active_loras = 0;

  friend bool operator==(const BatchDescriptor&, const BatchDescriptor&) = default;
};

/// A key of the capture plan.
struct PlannedKey {
  CudagraphRuntimeMode mode = CudagraphRuntimeMode::NONE;
  BatchDescriptor descriptor;

  friend bool operator==(const PlannedKey&, const PlannedKey&) = default;
};

/// "tokens=16 reqs=4 uniform lora=2". If num_reqs is unset: "reqs=*".
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
    // Pack the fields into 64 bits, then mix them with the finaliser of splitmix64, so that
    // neighbouring sizes get distant buckets.
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
