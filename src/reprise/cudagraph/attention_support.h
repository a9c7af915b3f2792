#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace reprise::cudagraph {

/// How much of an attention backend's work a FULL graph can hold, in order of capability. Cascade
/// attention is outside this scale: it never runs in a FULL graph.
enum class AttentionCGSupport : uint8_t {
  NEVER = 0,
  UNIFORM_SINGLE_TOKEN_DECODE = 1,  // only batches with query length 1
  UNIFORM_BATCH = 2,                // only batches with one common query length (verification)
  ALWAYS = 3,                       // also mixed prefill and decode
};

[[nodiscard]] constexpr std::string_view to_string(AttentionCGSupport support) noexcept {
  switch (support) {
    case AttentionCGSupport::NEVER:
      return "NEVER";
    case AttentionCGSupport::UNIFORM_SINGLE_TOKEN_DECODE:
      return "UNIFORM_SINGLE_TOKEN_DECODE";
    case AttentionCGSupport::UNIFORM_BATCH:
      return "UNIFORM_BATCH";
    case AttentionCGSupport::ALWAYS:
      return "ALWAYS";
  }
  return "?";
}

struct AttentionBackendSupport {
  std::string backend;
  AttentionCGSupport support = AttentionCGSupport::NEVER;  // an undeclared backend supports nothing

  friend bool operator==(const AttentionBackendSupport&, const AttentionBackendSupport&) = default;
};

/// The support of a whole model: the support of its weakest backend (the first one, among equals).
/// A model without attention supports everything.
[[nodiscard]] inline AttentionBackendSupport weakest_of(
    std::span<const AttentionBackendSupport> backends) {
  if (backends.empty()) return {"no attention", AttentionCGSupport::ALWAYS};
  return *std::min_element(backends.begin(), backends.end(), [](const auto& a, const auto& b) {
    return a.support < b.support;
  });
}

}  // namespace reprise::cudagraph
