#include "reprise/api/loading/memory_bill.h"

namespace reprise::api {

MemoryBill memory_bill(const StartupReport& report) {
  const runner::MemoryParts& parts = report.memory;
  const auto bytes = [](size_t value) { return static_cast<int64_t>(value); };
  return {.budget = report.memory_budget,
          .others = bytes(parts.others),
          .weights = bytes(parts.weights),
          .states = bytes(parts.states),
          .kv_cache = bytes(parts.kv_cache),
          .num_blocks = report.num_kv_blocks,
          .block_size = report.kv_block_size,
          .activations = bytes(parts.activations),
          .graphs = bytes(parts.graphs),
          .buffers = bytes(parts.buffers)};
}

}  // namespace reprise::api
