#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "reprise/cudagraph/capture/capture_report.h"
#include "reprise/cudagraph/cudagraph_dispatcher.h"
#include "reprise/parallel/communicator.h"
#include "reprise/runner/input_batch.h"

namespace reprise::runner {

class ModelRunner;

/// The steps of several ranks. Rank 0 schedules and samples. Before each step it sends the batch to
/// the other ranks, which run the same step on their part of the model.
///
/// This is rank 0's side. Allocates nothing once it has sent the largest batch. Borrows the
/// communicator.
class StepLeader {
 public:
  explicit StepLeader(parallel::Communicator& ranks) : ranks_(&ranks) {}

  /// Sends a batch. Each other rank first retires these keys (numbers in PlannedKeys), then runs
  /// this step. \throws parallel::RankError
  void announce(std::span<const scheduler::StepEntry> requests,
                const cudagraph::BatchFacts& facts,
                std::span<const int32_t> retired = {});
  /// Ends run_announced_steps() on the other ranks. \throws parallel::RankError
  void stop();

 private:
  void send();

  parallel::Communicator* ranks_;
  std::vector<int32_t> words_;
};

/// The other ranks' side: runs the steps that rank 0 announces, until it stops.
/// \throws parallel::RankError, device::DeviceError
void run_announced_steps(parallel::Communicator& ranks, ModelRunner& runner);

/// A number computed from everything that ranks must agree on in a step: its key and its batch.
[[nodiscard]] uint64_t step_digest(const cudagraph::Decision& decision,
                                   std::span<const scheduler::StepEntry> requests) noexcept;

/// Compares the step of all ranks before it runs, so that a difference becomes an error instead of
/// a hang in the middle of the model. `stale_key`: the number of a key that this rank can no longer
/// replay; -1: none. Returns such a number of any rank, or -1. \throws parallel::RankError that
/// names the rank and what differs
int32_t agree_on_step(parallel::Communicator& ranks,
                      uint64_t step,
                      const cudagraph::Decision& decision,
                      std::span<const scheduler::StepEntry> requests,
                      int32_t stale_key = -1);

/// Compares the capture plans of all ranks and the captured keys. A replay on only one rank would
/// wait for the others for ever. \throws parallel::RankError that names the rank
void agree_on_capture(parallel::Communicator& ranks,
                      const cudagraph::CudagraphDispatcher& dispatcher,
                      const cudagraph::CaptureReport& report);

}  // namespace reprise::runner
