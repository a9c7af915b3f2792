#pragma once

#include <cstddef>

namespace reprise::engine {

/// The device memory that steps and graphs need, measured before there is a cache.
struct MemoryProfile {
  double seconds = 0;
  size_t activation_bytes = 0;       // of the largest step, run eagerly
  size_t probed_graph_bytes = 0;     // of the graphs captured for the profile
  size_t estimated_graph_bytes = 0;  // of all planned graphs, including the probed ones
  /// Bytes in use by everything on the device while the profiled runner lived, without its small
  /// cache.
  size_t used_bytes = 0;

  /// The part of `budget` bytes that is left for the cache, or 0.
  [[nodiscard]] size_t cache_bytes(size_t budget) const noexcept;
};

/// Bytes of a device's memory by use; each part is counted where it is allocated.
struct MemoryParts {
  size_t others = 0;  // other processes, the driver, code: in use before there were graphs
  size_t weights = 0;
  size_t kv_cache = 0;
  size_t activations = 0;  // the pool of eager steps
  size_t graphs = 0;       // the pool of graphs, and their executables
  size_t buffers = 0;   // everything else that was allocated: persistent buffers, arena, workspaces
  size_t reported = 0;  // what the device reports as used: about the sum of the other parts

  [[nodiscard]] size_t sum() const noexcept {
    return others + weights + kv_cache + activations + graphs + buffers;
  }
};

}  // namespace reprise::engine
