#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "reprise/api/engine_stats.h"

namespace reprise::server {

/// The table of vLLM's --cudagraph-metrics: which batch sizes ran since the table before, padded to
/// what, replayed as what. Knows no clock and prints nothing.
class CudagraphLog {
 public:
  using Rows = std::span<const cudagraph::DispatchLedger::Row>;

  CudagraphLog(cudagraph::CudagraphMode mode, std::span<const int32_t> capture_sizes);

  /// `since_start`: the ledger's rows. Nothing while no step ran.
  [[nodiscard]] std::optional<std::string> next_table(Rows since_start);

 private:
  std::string settings_;
  std::vector<cudagraph::DispatchLedger::Row> told_;  // what the tables before said, in sum
};

}  // namespace reprise::server
