#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "reprise/api/engine_stats.h"

namespace reprise::server {

/// The table of vLLM's --cudagraph-metrics: the batch sizes that ran since the previous table, the
/// sizes they were padded to, and the kind of graph that was replayed. The class reads no clock and
/// prints nothing.
class CudagraphLog {
 public:
  using Rows = std::span<const cudagraph::DispatchLedger::Row>;

  CudagraphLog(cudagraph::CudagraphMode mode, std::span<const int32_t> capture_sizes);

  /// `since_start`: the ledger's rows since the start. Returns nullopt when no step ran.
  [[nodiscard]] std::optional<std::string> next_table(Rows since_start);

 private:
  std::string settings_;
  std::vector<cudagraph::DispatchLedger::Row> told_;  // the sum of the previous tables
};

}  // namespace reprise::server
