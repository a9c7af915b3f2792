#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "reprise/runner/graph_profile.h"

namespace reprise::runner {

/// Which of two times is longer, beyond their spread.
enum class TimeChange : uint8_t { same, faster, slower };

/// `same` if the ranges between the quartiles overlap, or if the medians differ by less than 2 %.
[[nodiscard]] TimeChange compare_times(const TimeSpread& a, const TimeSpread& b) noexcept;

/// A node of the first profile and the node of the second one that does the same work; one of them
/// may be missing.
struct NodePair {
  std::optional<size_t> a;  // index into GraphProfile::nodes
  std::optional<size_t> b;
  bool has_other_kernel = false;
  // Whether the second node reads or writes other numbers of bytes.
  bool has_other_bytes = false;
  TimeChange time = TimeChange::same;  // of the second node, in its place

  [[nodiscard]] bool is_in_both() const noexcept { return a && b; }
};

/// The differences between two profiles: of two keys, modes, builds or machines. A value type.
struct GraphDiff {
  std::vector<NodePair> nodes;  // in the order of the replays
  size_t num_only_in_a = 0;
  size_t num_only_in_b = 0;
  size_t num_other_kernels = 0;
  size_t num_other_bytes = 0;
  size_t num_slower = 0;
  size_t num_faster = 0;
  TimeChange replay = TimeChange::same;  // of the second profile
  /// Facts that differ between the two engines, such as "cpu_isa: avx2, avx512".
  std::vector<std::string> engines;

  /// Whether both replays run the same kernels over the same number of bytes, in the same order.
  [[nodiscard]] bool has_same_nodes() const noexcept {
    return num_only_in_a + num_only_in_b + num_other_kernels + num_other_bytes == 0;
  }
};

/// Two nodes do the same work if op, layer and weight are equal. Pairs keep the order of both
/// replays, and their number is the largest possible.
[[nodiscard]] GraphDiff diff(const GraphProfile& a, const GraphProfile& b);

/// The result as one sentence: "B is 12 % slower than A, with the same nodes".
[[nodiscard]] std::string verdict_of(const GraphProfile& a,
                                     const GraphProfile& b,
                                     const GraphDiff& diff);

}  // namespace reprise::runner
