#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "reprise/device/cpu/cpu_topology.h"

namespace reprise::device {

/// On which CPUs workers run (vLLM's VLLM_CPU_OMP_THREADS_BIND).
struct ThreadBinding {
  enum class Kind : uint8_t {
    usable,   // one worker on each usable CPU, in the order of their numbers
    by_core,  // "auto": one worker on each physical core, node after node
    none,     // "nobind": no worker is bound
    listed,   // these CPUs, in this order
  };
  Kind kind = Kind::usable;
  std::vector<std::vector<int>> cpus;  // by rank; only if listed

  friend bool operator==(const ThreadBinding&, const ThreadBinding&) = default;
};

/// Reads "auto", "nobind", "" (usable), or lists for the ranks: "0-31|32-63". Nothing: the text is
/// none of these.
[[nodiscard]] std::optional<ThreadBinding> parse_thread_binding(std::string_view text);

/// The part of memory that the workers of one node read.
struct NodeSlice {
  size_t begin = 0;  // bytes
  size_t end = 0;
  int node = 0;

  friend bool operator==(const NodeSlice&, const NodeSlice&) = default;
};

/// The workers of a device and their CPUs. Workers of a node follow each other, so the parts of a
/// grid that they run are neighbours.
struct WorkerPlacement {
  std::vector<LogicalCpu> workers;
  bool is_bound = true;  // each worker runs only on its CPU
  // The parts of weights are placed on the nodes of the workers that read them.
  bool places_memory = false;
  std::vector<int> memory_nodes;

  /// The slices of a buffer that workers read in equal parts, in their order: worker i of n reads
  /// the bytes from i/n to (i+1)/n. Neighbours on one node share a slice. Slices begin and end at
  /// multiples of `page`, and cover the buffer. Empty: there is nothing to place, because all
  /// workers are on one node, or because the placement does not place memory. Workers of a node
  /// without memory take that of the workers before them, or else of those after them.
  [[nodiscard]] std::vector<NodeSlice> slices_of(size_t bytes, size_t page) const;
};

/// The placement of the workers of one of `num_ranks` processes of this machine. `num_threads`: the
/// largest number of workers; 0: one worker per CPU. \throws InvalidArgument if the binding names a
/// CPU that cannot be used, or has no list for the rank
[[nodiscard]] WorkerPlacement place_workers(const CpuTopology& topology,
                                            const ThreadBinding& binding,
                                            int num_threads,
                                            int rank,
                                            int num_ranks);

}  // namespace reprise::device
