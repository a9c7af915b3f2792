#pragma once

#include <cstddef>

namespace reprise::engine {

/// What steps and graphs take of a device's memory, measured before there is a cache.
struct MemoryProfile {
  double seconds = 0;
  size_t activation_bytes = 0;       // of the largest step, eagerly
  size_t probed_graph_bytes = 0;     // of the graphs that were captured for this
  size_t estimated_graph_bytes = 0;  // of the whole plan; these included
  /// Held by everything on the device while the profiled runner lived, its small cache left out.
  size_t used_bytes = 0;

  /// What is left for the cache of `budget` bytes, or 0.
  [[nodiscard]] size_t cache_bytes(size_t budget) const noexcept;
};

/// Bytes of a device's memory by use, as counted where each part is allocated.
struct MemoryParts {
  size_t others = 0;  // other processes, the driver, code: held before there are graphs
  size_t weights = 0;
  size_t kv_cache = 0;
  size_t activations = 0;  // the pool of eager steps
  size_t graphs = 0;       // their pool and executables
  size_t buffers = 0;   // everything else that was allocated: persistent buffers, arena, workspaces
  size_t reported = 0;  // what the device says is held: about the sum

  [[nodiscard]] size_t sum() const noexcept {
    return others + weights + kv_cache + activations + graphs + buffers;
  }
};

}  // namespace reprise::engine
