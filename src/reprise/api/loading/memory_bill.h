#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "reprise/api/options/engine_args.h"
#include "reprise/api/options/startup_report.h"

namespace reprise::api {

/// What a start takes of a device's memory, in bytes. Before the start some figures are limits; the
/// start measures them.
struct MemoryBill {
  MemoryBudget budget;
  int64_t others = 0;   // in use by other programs, by the driver and by code
  int64_t weights = 0;  // with the draft model's; states and cache as well
  int64_t states = 0;
  int64_t kv_cache = 0;
  int64_t num_blocks = 0;
  int32_t block_size = 0;
  /// Of pools, graphs and buffers; nothing: not known before the start.
  std::optional<int64_t> activations;
  std::optional<int64_t> graphs;
  std::optional<int64_t> buffers;
  /// States and cache may be smaller: if activations, graphs and buffers take more than `rest()`,
  /// they take it from the caches.
  bool cache_is_limit = false;

  /// What is left of the budget beside the figures that are known.
  [[nodiscard]] int64_t rest() const noexcept {
    return budget.bytes - others - weights - states - kv_cache - activations.value_or(0) -
           graphs.value_or(0) - buffers.value_or(0);
  }
};

/// The bill of load_engine() with these arguments. Opens the device and reads the headers of the
/// weights' files, but no weights. \throws as load_engine() for options, files and what does not
/// fit
[[nodiscard]] MemoryBill plan_memory(const EngineArgs& args);

/// The bill of a start, measured. Blocks and weights of a draft model are in the figures.
[[nodiscard]] MemoryBill memory_bill(const StartupReport& report);

}  // namespace reprise::api
