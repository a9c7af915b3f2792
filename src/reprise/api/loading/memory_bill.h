#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "reprise/api/options/engine_args.h"
#include "reprise/api/options/startup_report.h"

namespace reprise::api {

/// The memory of a device that a start uses, in bytes. Before the start some figures are limits;
/// the start measures them.
struct MemoryBill {
  MemoryBudget budget;
  int64_t others = 0;  // used by other programs, by the driver and by code
  // With the draft model's weights; states and cache also include the draft model's.
  int64_t weights = 0;
  int64_t states = 0;
  int64_t kv_cache = 0;
  int64_t num_blocks = 0;
  int32_t block_size = 0;
  /// Memory of pools, graphs and buffers; unset: not known before the start.
  std::optional<int64_t> activations;
  std::optional<int64_t> graphs;
  std::optional<int64_t> buffers;
  /// The figures of states and cache are upper limits: if activations, graphs and buffers need more
  /// than `rest()`, the caches get less.
  bool cache_is_limit = false;

  /// The part of the budget that the known figures leave.
  [[nodiscard]] int64_t rest() const noexcept {
    return budget.bytes - others - weights - states - kv_cache - activations.value_or(0) -
           graphs.value_or(0) - buffers.value_or(0);
  }
};

/// The memory bill of load_engine() with these arguments. Opens the device and reads the headers of
/// the weights' files, but no weights. \throws as load_engine() for options, for files and for
/// parts that do not fit
[[nodiscard]] MemoryBill plan_memory(const EngineArgs& args);

/// The measured memory bill of a start. The numbers include blocks and weights of a draft model.
[[nodiscard]] MemoryBill memory_bill(const StartupReport& report);

}  // namespace reprise::api
