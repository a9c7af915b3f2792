#pragma once

#include <cstddef>
#include <span>

#include "reprise/cudagraph/capture/capture_session.h"
#include "reprise/cudagraph/cudagraph_dispatcher.h"
#include "reprise/runner/memory_report.h"
#include "reprise/runner/model_runner.h"

namespace reprise::engine {

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

/// `others`: bytes that were in use before there were graphs, by everything but this engine.
/// \throws device::DeviceError
[[nodiscard]] MemoryParts measure_memory(Execution& execution,
                                         const ModelRunner& runner,
                                         size_t others,
                                         size_t weights);

}  // namespace reprise::engine
