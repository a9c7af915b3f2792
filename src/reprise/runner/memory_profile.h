#pragma once

#include <cstddef>
#include <span>

#include "reprise/cudagraph/capture/capture_session.h"
#include "reprise/cudagraph/cudagraph_dispatcher.h"
#include "reprise/runner/memory_report.h"
#include "reprise/runner/model_runner.h"

namespace reprise::engine {

/// Number of cache blocks of a runner that is only profiled: made-up batches write into no block.
inline constexpr int64_t kProfiledBlocks = 2;

/// The plan for a profile: `options` with at most the two largest sizes of each kind.
[[nodiscard]] cudagraph::DispatcherOptions profiled_plan(cudagraph::DispatcherOptions options);

/// Estimates the bytes of a whole plan from measured keys: for each group of the plan, the first
/// measured key counts once and the second one counts for every other key of the group. Keys that
/// failed to capture are left out.
[[nodiscard]] size_t estimate_graph_bytes(std::span<const cudagraph::CaptureRecord> measured,
                                          std::span<const cudagraph::CaptureGroup> plan);

/// Runs the largest possible step and captures the keys of profiled_plan(), on a runner that exists
/// only for this profile and has kProfiledBlocks blocks. The pools of the execution keep the memory
/// that they gained, for the real runner. `whole_plan` is the plan of the real runner.
/// \throws OutOfMemory when the largest step does not fit, device::DeviceError
[[nodiscard]] MemoryProfile profile_memory(ModelRunner& runner,
                                           Execution& execution,
                                           std::span<const cudagraph::CaptureGroup> whole_plan);

/// `others`: bytes that everything but this engine used before there were graphs.
/// \throws device::DeviceError
[[nodiscard]] MemoryParts measure_memory(Execution& execution,
                                         const ModelRunner& runner,
                                         size_t others,
                                         size_t weights);

}  // namespace reprise::engine
