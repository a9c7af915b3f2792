#pragma once

#include <cstddef>

namespace reprise::runner {

/// The device memory that steps and graphs need, measured before the cache is allocated.
struct MemoryProfile {
  double seconds = 0;
  size_t activation_bytes = 0;    // of the largest step, run eagerly
  size_t probed_graph_bytes = 0;  // of the graphs that were captured for the profile
  // An estimate for all graphs in the capture plan, including those captured for the profile.
  size_t estimated_graph_bytes = 0;
  /// All bytes in use on the device while the profiling runner existed, except its small cache.
  size_t used_bytes = 0;

  /// How many of `budget` bytes remain for the cache; at least 0.
  [[nodiscard]] size_t cache_bytes(size_t budget) const noexcept;
};

/// A device's memory in bytes, by use.
struct MemoryParts {
  size_t others = 0;  // other processes, the driver, code: what was in use before the first capture
  size_t weights = 0;
  size_t kv_cache = 0;
  size_t activations = 0;  // the pool of eager steps
  size_t graphs = 0;       // the pool of graphs, and their executables
  size_t buffers = 0;   // everything else that was allocated: persistent buffers, arena, workspaces
  size_t reported = 0;  // what the device reports as used; close to sum()

  [[nodiscard]] size_t sum() const noexcept {
    return others + weights + kv_cache + activations + graphs + buffers;
  }
};

}  // namespace reprise::runner
