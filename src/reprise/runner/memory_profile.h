#pragma once

#include <cstddef>
#include <span>

#include "reprise/cudagraph/capture/capture_session.h"
#include "reprise/cudagraph/cudagraph_dispatcher.h"
#include "reprise/runner/memory_report.h"
#include "reprise/runner/model_runner.h"

namespace reprise::runner {

/// Number of cache blocks of the runner that is used for profiling. Dummy batches write to no
/// block, so two blocks suffice.
inline constexpr int64_t kProfiledBlocks = 2;

/// Options for a profile: `options` reduced to the two largest capture sizes of each kind of batch.
[[nodiscard]] cudagraph::DispatcherOptions profiled_plan(cudagraph::DispatcherOptions options);

/// Estimates the graph memory of a whole capture plan from the measured keys. In each group of the
/// plan, the first measured key counts once: it is the largest, and the other keys reuse its
/// memory. Every other key of the group counts as much as the second measured key. Keys that failed
/// to capture are ignored.
[[nodiscard]] size_t estimate_graph_bytes(std::span<const cudagraph::CaptureRecord> measured,
                                          std::span<const cudagraph::CaptureGroup> plan);

/// Measures memory with a runner that exists only for this purpose and has kProfiledBlocks blocks:
/// runs the largest possible step, then captures the keys of profiled_plan(). The pools of
/// `execution` keep the memory that they allocated, so the real runner reuses it. `whole_plan` is
/// the capture plan of the real runner.
/// \throws OutOfMemory when the largest step does not fit, device::DeviceError
[[nodiscard]] MemoryProfile profile_memory(ModelRunner& runner,
                                           Execution& execution,
                                           std::span<const cudagraph::CaptureGroup> whole_plan);

/// Measures how the device's memory is used now. `others`: bytes in use by others before this
/// engine captured graphs.
/// \throws device::DeviceError
[[nodiscard]] MemoryParts measure_memory(Execution& execution,
                                         const ModelRunner& runner,
                                         size_t others,
                                         size_t weights);

}  // namespace reprise::runner
