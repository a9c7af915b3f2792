#pragma once

#include <array>
#include <cstdint>

#include "reprise/cudagraph/cudagraph_dispatcher.h"
#include "reprise/cudagraph/cudagraph_mode.h"
#include "reprise/cudagraph/verify/verify_graphs.h"

namespace reprise::api {

/// Counts of changes, and the graphs that there are now: of the model and its draft model together.
struct GraphChangeStats {
  uint64_t num_changes = 0;
  uint64_t num_refused = 0;
  uint64_t num_captures = 0;  // between steps, without those that failed
  uint64_t num_failed_captures = 0;
  double capture_seconds = 0;                                 // of all captures between steps
  std::array<uint64_t, cudagraph::kNumKeyStates> num_keys{};  // by cudagraph::KeyState
  uint64_t graph_bytes = 0;                // executable graphs and their memory pools
  std::array<uint64_t, 3> num_captured{};  // of the model alone, by runtime mode
  cudagraph::CudagraphMode mode = cudagraph::CudagraphMode::NONE;
  cudagraph::VerifyGraphs verify_graphs = cudagraph::VerifyGraphs::off;
  double shadow_check_rate = 0;
};

}  // namespace reprise::api
