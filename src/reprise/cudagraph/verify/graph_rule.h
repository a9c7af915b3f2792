#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace reprise::cudagraph {

/// A rule that a captured graph must keep, so that each replay gives the bits of an eager run. The
/// names are stable: logs, metrics and docs/graph-failures.md show them.
enum class GraphRule : uint8_t {
  /// Each byte that a node reads is constant, staged for this batch, kept from step to step (caches
  /// and states), or written by an earlier node of the same key.
  reads_defined_memory,
  /// Each byte that a node writes is the graph's own, or belongs to caches and states.
  writes_own_memory,
  /// Each byte that a node uses is in a named region of memory.
  uses_known_memory,
  /// Regions of memory with different lifetimes do not overlap.
  keeps_lifetimes_apart,
  /// A replay gives the same bits as the eager run.
  replays_as_eager,
  /// Values that padding rows read never change a row of a request.
  ignores_padding,
  /// Two captures of a key over different batches have equal nodes.
  depends_on_no_batch,
  /// A capture only records: nothing allocates, waits or calls the host.
  only_records,
  /// Warm-up and captures change no memory that steps read.
  leaves_no_trace,
};

inline constexpr GraphRule kLastGraphRule = GraphRule::leaves_no_trace;

[[nodiscard]] std::string_view to_string(GraphRule rule) noexcept;

/// One way in which a captured graph breaks a rule.
struct Violation {
  GraphRule rule = GraphRule::reads_defined_memory;
  // Number of the node in its key; unset: the rule is about the key as a whole.
  std::optional<size_t> node;
  std::string kernel;
  // The weight or cache that the node reads, or that the nearest node before it reads.
  std::string place;
  std::string buffer;   // the region of memory, and which of its bytes
  std::string problem;  // one sentence without its full stop
};

/// One line: rule, node, kernel, layer, buffer, problem and what to do.
[[nodiscard]] std::string describe(const Violation& violation);

}  // namespace reprise::cudagraph
