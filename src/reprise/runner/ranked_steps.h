#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "reprise/cudagraph/capture/capture_report.h"
#include "reprise/cudagraph/cudagraph_dispatcher.h"
#include "reprise/parallel/communicator.h"
#include "reprise/runner/data_parallel_steps.h"
#include "reprise/runner/rank_steps.h"

namespace reprise::runner {

/// One rank's state for steps that it runs together with the other ranks of its model, and with
/// other engines of the same model: which rank leads, the numbers of the planned keys, and the keys
/// that some rank can no longer replay. A key is retired on all ranks before the same step. Borrows
/// everything. Belongs to the runner's thread.
class RankedSteps {
 public:
  /// `ranks`, `data_parallel`: see ModelRunnerOptions; at least one of them is not null. \pre the
  /// keys of `dispatcher` are planned
  RankedSteps(parallel::Communicator* ranks,
              DataParallelSteps* data_parallel,
              cudagraph::CudagraphDispatcher& dispatcher);

  /// Whether this rank decides by itself how a step computes attention. The other ranks of a model
  /// follow rank 0. Engines in lockstep must have the same mode, so no engine decides alone.
  [[nodiscard]] bool decides_attention() const noexcept {
    return data_parallel_ == nullptr && is_leader();
  }

  /// Begins a step: agrees with the other engines, retires keys, and announces the step to the
  /// other ranks. nullopt: no engine has work. \throws parallel::RankError
  [[nodiscard]] std::optional<cudagraph::BatchFacts> agree(
      std::span<const scheduler::StepEntry> requests, const cudagraph::BatchFacts& facts);
  /// Compares the step with those of the other ranks, before the step runs. \throws
  /// parallel::RankError
  void compare(const cudagraph::Decision& decision, std::span<const scheduler::StepEntry> requests);
  /// Whether any rank found a difference between a replay and the eager run. All ranks call this
  /// function in the same steps. \throws parallel::RankError
  [[nodiscard]] bool any_rank_differs(bool differs_here);
  /// Compares the captured keys of the ranks. \throws parallel::RankError
  void compare_capture(const cudagraph::CaptureReport& report);

  /// Forbids these keys (numbers in the capture plan), because another rank can no longer replay
  /// them.
  void retire(std::span<const int32_t> keys);
  /// Remembers that this rank can no longer replay a key. All ranks retire it before the next step.
  /// `has_launched`: whether the replay had begun, so that the other ranks have exchanged data with
  /// it. \throws parallel::RankError if it had begun
  void retire_stale(const cudagraph::Decision& decision,
                    const std::string& reason,
                    bool has_launched);

  /// Calls `device`, which waits for this rank's device. A rank that was lost meanwhile is
  /// reported, because the results of the step are then undefined. \throws parallel::RankError
  void wait_for(const std::function<void()>& device) const;
  /// Lets the other ranks end. Does nothing on ranks other than rank 0.
  void stop() noexcept;

 private:
  /// The ranks whose devices a step needs: those of the model, or the other engines.
  [[nodiscard]] parallel::Communicator* connected() const noexcept;
  [[nodiscard]] bool is_leader() const noexcept { return ranks_ == nullptr || leader_.has_value(); }

  parallel::Communicator* ranks_;     // nullptr: this is the only rank of its model
  DataParallelSteps* data_parallel_;  // nullptr: steps need no other engine
  cudagraph::CudagraphDispatcher* dispatcher_;
  std::optional<StepLeader> leader_;  // of rank 0
  PlannedKeys planned_keys_;
  uint64_t num_steps_ = 0;
  // A key that this rank cannot replay; the other ranks do not know it yet.
  int32_t stale_key_ = -1;
  std::vector<int32_t> to_retire_;  // keys to retire before the next step that rank 0 announces
};

}  // namespace reprise::runner
