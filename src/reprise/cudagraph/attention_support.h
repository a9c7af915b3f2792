#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace reprise::cudagraph {

/// Which batches of an attention backend a FULL graph can hold; a higher value includes all lower
/// ones. Batches with cascade attention are never run with a FULL graph, whatever this value is.
enum class AttentionCGSupport : uint8_t {
  NEVER = 0,
  UNIFORM_SINGLE_TOKEN_DECODE = 1,  // only batches with query length 1
  // Only uniform batches of any query length, as in verification of speculative tokens.
  UNIFORM_BATCH = 2,
  ALWAYS = 3,  // also batches that mix prefill and decode
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

/// How many sets of FULL graphs pay for a backend. A backend with kernels of its own for decode
/// batches has them only in graphs of decode batches; graphs of mixed batches would also serve
/// decode batches, but with the kernels for mixed ones. Source: vLLM's pull request 20059, where
/// the levels were ALWAYS_UNIFIED (one set) and ALWAYS_SEPARATE (two sets).
enum class FullGraphSets : uint8_t {
  one,           // the same kernels serve all batches, or graphs of mixed batches are not possible
  two_if_asked,  // mode FULL_AND_FULL captures both sets, mode FULL only that of mixed batches
  two,           // mode FULL captures both sets too
};

struct AttentionBackendSupport {
  std::string backend;
  // A backend that declares nothing supports nothing.
  AttentionCGSupport support = AttentionCGSupport::NEVER;
  /// The layers of the model that the backend serves, such as "0-2, 4"; empty: the model is not
  /// known.
  std::string layers = {};
  /// More than one: the backend also holds mixed batches in FULL graphs if decode batches have a
  /// set of their own, even where `support` is lower for the sake of speed (FLASH_ATTN 2).
  FullGraphSets full_graph_sets = FullGraphSets::one;

  /// Whether FULL graphs of mixed batches are possible beside a set for decode batches.
  [[nodiscard]] bool holds_mixed_batches_beside_decode() const noexcept {
    return support == AttentionCGSupport::ALWAYS ||
           (full_graph_sets != FullGraphSets::one && support != AttentionCGSupport::NEVER);
  }

  friend bool operator==(const AttentionBackendSupport&, const AttentionBackendSupport&) = default;
};

/// The support of a model with several backends: the lowest one among them (of equal ones, the
/// first). A model without attention supports everything.
[[nodiscard]] inline AttentionBackendSupport weakest_of(
    std::span<const AttentionBackendSupport> backends) {
  if (backends.empty()) return {"no attention", AttentionCGSupport::ALWAYS};
  return *std::min_element(backends.begin(), backends.end(), [](const auto& a, const auto& b) {
    return a.support < b.support;
  });
}

}  // namespace reprise::cudagraph
