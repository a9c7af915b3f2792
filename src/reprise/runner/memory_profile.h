#pragma once

#include <cstddef>
#include <span>

#include "reprise/cudagraph/capture/capture_session.h"
#include "reprise/cudagraph/cudagraph_dispatcher.h"
#include "reprise/runner/model_runner.h"

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

/// The cache of a runner that is only profiled: made-up batches write into no block.
inline constexpr int64_t kProfiledBlocks = 2;

/// The plan with at most two sizes of each kind, the largest: what a profile captures.
[[nodiscard]] cudagraph::DispatcherOptions profiled_plan(cudagraph::DispatcherOptions options);

/// Bytes of a whole plan: for each of its groups the first key's, and the second's for every other,
/// as measured. Keys that failed count as nothing.
[[nodiscard]] size_t estimate_graph_bytes(std::span<const cudagraph::CaptureRecord> measured,
                                          std::span<const cudagraph::CaptureGroup> plan);

/// Runs the largest step that there can be and captures what profiled_plan() left, on a runner made
/// for this: with kProfiledBlocks blocks, and gone afterwards. The pools of the execution keep what
/// they grew by, for the real one. `whole_plan`: of the real one.
/// \throws OutOfMemory when the largest step does not fit, device::DeviceError
[[nodiscard]] MemoryProfile profile_memory(ModelRunner& runner,
                                           Execution& execution,
                                           std::span<const cudagraph::CaptureGroup> whole_plan);

/// Where a device's memory is, by the books of those who asked for it.
struct MemoryParts {
  size_t others = 0;  // other processes, the driver, code: held before there are graphs
  size_t weights = 0;
  size_t kv_cache = 0;
  size_t activations = 0;  // the pool of eager steps
  size_t graphs = 0;       // their pool and executables
  size_t buffers = 0;      // all else that was allocated: persistent buffers, arena, workspaces
  size_t reported = 0;     // what the device says is held: about the sum

  [[nodiscard]] size_t sum() const noexcept {
    return others + weights + kv_cache + activations + graphs + buffers;
  }
};

/// \throws device::DeviceError
[[nodiscard]] MemoryParts measure_memory(Execution& execution,
                                         const ModelRunner& runner,
                                         size_t others,
                                         size_t weights);

}  // namespace reprise::engine
