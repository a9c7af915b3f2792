#include "reprise/runner/memory_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "reprise/base/error.h"

namespace reprise::runner {
namespace {

void keep_two_largest(std::vector<int32_t>& sizes) {
  if (sizes.size() > 2) sizes.erase(sizes.begin(), sizes.end() - 2);
}

size_t used_bytes(const device::MemoryInfo& memory) { return memory.total - memory.free; }

}  // namespace

size_t MemoryProfile::cache_bytes(size_t budget) const noexcept {
  const size_t graphs_to_come =
      estimated_graph_bytes - std::min(estimated_graph_bytes, probed_graph_bytes);
  return budget - std::min(budget, used_bytes + graphs_to_come);
}

cudagraph::DispatcherOptions profiled_plan(cudagraph::DispatcherOptions options) {
  keep_two_largest(options.mixed_capture_sizes);
  keep_two_largest(options.decode_capture_sizes);
  // Compile sizes larger than these two would be padded to one of them.
  options.compile_sizes.clear();
  return options;
}

size_t estimate_graph_bytes(std::span<const cudagraph::CaptureRecord> measured,
                            std::span<const cudagraph::CaptureGroup> plan) {
  size_t bytes = 0;
  for (const cudagraph::CaptureGroup& group : plan) {
    std::vector<size_t> of_group;
    for (const cudagraph::CaptureRecord& record : measured) {
      if (record.mode == group.mode && record.descriptor.uniform == group.uniform &&
          record.failure.empty()) {
        of_group.push_back(record.bytes);
      }
    }
    if (of_group.empty() || group.descriptors.empty()) continue;
    const size_t other = of_group.size() > 1 ? of_group[1] : of_group[0];
    bytes += of_group[0] + (group.descriptors.size() - 1) * other;
  }
  return bytes;
}

MemoryProfile profile_memory(ModelRunner& runner,
                             Execution& execution,
                             std::span<const cudagraph::CaptureGroup> whole_plan) {
  const auto start = std::chrono::steady_clock::now();
  MemoryProfile profile;
  const size_t before = execution.eager_pool().reserved_bytes();
  try {
    runner.run_largest_step();
  } catch (const OutOfMemory& error) {
    throw OutOfMemory(
        fmt::format("the largest step does not fit beside the weights; give a smaller "
                    "--max-num-batched-tokens or --max-num-seqs, or a smaller model: {}",
                    error.what()));
  }
  profile.activation_bytes = execution.eager_pool().reserved_bytes() - before;
  const cudagraph::CaptureReport report = runner.capture({});
  profile.probed_graph_bytes = report.bytes;
  profile.estimated_graph_bytes = estimate_graph_bytes(report.records, whole_plan);
  // The caches of this runner are not those of the engine.
  profile.used_bytes = used_bytes(execution.device().memory()) - runner.kv_cache().memory().bytes -
                       runner.states().memory().bytes;
  profile.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return profile;
}

MemoryParts measure_memory(Execution& execution,
                           const ModelRunner& runner,
                           size_t others,
                           size_t weights) {
  const device::MemoryInfo memory = execution.device().memory();
  MemoryParts parts{.others = others,
                    .weights = weights,
                    .kv_cache = runner.kv_cache().memory().bytes,
                    .activations = execution.eager_pool().reserved_bytes(),
                    .graphs = runner.graph_bytes() + execution.graph_pool().reserved_bytes(),
                    .reported = used_bytes(memory)};
  const size_t named =
      parts.weights + parts.kv_cache + parts.activations + execution.graph_pool().reserved_bytes();
  parts.buffers = memory.allocated_here - std::min(memory.allocated_here, named);
  return parts;
}

}  // namespace reprise::runner
