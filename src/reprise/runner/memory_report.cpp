#include "reprise/runner/memory_report.h"

#include <algorithm>

#include "reprise/runner/execution.h"
#include "reprise/runner/model_runner.h"

namespace reprise::runner {

MemoryParts measure_memory(Execution& execution,
                           std::span<const ModelRunner* const> runners,
                           size_t others,
                           size_t weights) {
  const device::MemoryInfo memory = execution.device().memory();
  const size_t graph_pool = execution.graph_pool().reserved_bytes();
  MemoryParts parts{.others = others,
                    .weights = weights,
                    .activations = execution.eager_pool().reserved_bytes(),
                    .graphs = graph_pool,
                    .reported = memory.total - memory.free};
  for (const ModelRunner* runner : runners) {
    parts.states += runner->states().bytes();
    parts.kv_cache += runner->kv_cache().bytes();
    parts.graphs += runner->graph_bytes();
  }
  const size_t named =
      parts.weights + parts.states + parts.kv_cache + parts.activations + graph_pool;
  parts.buffers = memory.allocated_here - std::min(memory.allocated_here, named);
  return parts;
}

}  // namespace reprise::runner
