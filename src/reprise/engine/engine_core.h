#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "reprise/cudagraph/dispatch_ledger.h"
#include "reprise/engine/step_clock.h"
#include "reprise/engine/step_thread.h"
#include "reprise/runner/model_runner.h"
#include "reprise/runner/model_step.h"
#include "reprise/scheduler/scheduler.h"

namespace reprise::engine {

struct EngineCoreOptions {
  SchedulerConfig scheduler;
  uint64_t seed = 0;
  bool enable_prefix_caching = true;
  /// Samples where the logits are, what it can; borrowed, and outlives the core. nullptr: the host
  /// does.
  kernels::RowSampler* row_sampler = nullptr;
};

/// What was done since the start; failed steps computed nothing.
struct EngineCoreCounters {
  uint64_t num_steps = 0;
  uint64_t num_failed_steps = 0;  // not in num_steps
  uint64_t prompt_tokens = 0;  // computed, so not found in the prefix cache; those recomputed after
                               // a preemption count again
  uint64_t generation_tokens = 0;         // sampled
  uint64_t tokens_sampled_on_device = 0;  // of these, and of those that were dropped
  uint64_t dropped_tokens =
      0;  // sampled ahead for requests that had ended; not in generation_tokens
  uint64_t retired_graphs = 0;  // while serving
};

/// The loop around the model: schedule, compute, update. Owns requests, cache blocks and sampler;
/// borrows the runner. One thread calls it.
///
/// With SchedulerConfig::async_scheduling steps are computed on a thread of their own: while that
/// computes one step, the caller takes the results of the one before and schedules the one behind.
/// No request's tokens depend on it, nor does what any step computes for it. What ends a request
/// by its text, by a token, or from outside, is seen a step late: what was computed then is
/// dropped. Whatever is done with logits happens there in the order of steps, so that penalties,
/// bad words and constraints see all tokens before.
class EngineCore {
 public:
  EngineCore(ModelRunner& runner, const EngineCoreOptions& options);

  /// \throws InvalidArgument when the request can never run (see Scheduler::add_request)
  RequestId add_request(std::vector<int32_t> prompt_token_ids,
                        const sampling::SamplingParams& params,
                        RequestOptions options = {});

  /// What one step changed for a request. The request is gone when the next step begins, if it
  /// finished.
  using Update = RequestUpdate;

  /// Takes the results of one step: the one that it schedules, or with async_scheduling the one
  /// that was scheduled before. Empty when there was nothing to do. The updates live until the next
  /// call. A step that throws ends the requests in it as finished_error, with the reason, and only
  /// those: others go on with the next step.
  /// \throws device::DeviceError when the device is lost (is_sticky()); the requests of all steps
  /// under way have ended then too and the others can only be aborted.
  std::span<const Update> step();

  /// Ends a request at any point; unknown ids are ignored. Gives its last update, which lives until
  /// the next step, unless it had finished before. Its blocks are free when no step under way has
  /// it.
  std::optional<Update> abort_request(RequestId id);
  /// Ends a request because its text is complete (a stop string was found).
  void finish_request(RequestId id, const std::string& stop_string);

  /// Returns when no step is under way. What they computed is dropped, and requests that had not
  /// ended end as finished_error, without an update: call it when all have ended.
  void drop_steps();
  /// Forgets all cached prefixes. False, and nothing happens, while any request has blocks.
  [[nodiscard]] bool reset_prefix_cache();

  [[nodiscard]] bool has_unfinished_requests() const noexcept {
    return scheduler_.has_unfinished_requests();
  }
  [[nodiscard]] const Scheduler& scheduler() const noexcept { return scheduler_; }
  [[nodiscard]] const kv_cache::KvCacheManager& kv_cache_manager() const noexcept {
    return kv_cache_manager_;
  }
  [[nodiscard]] const EngineCoreCounters& counters() const noexcept { return counters_; }
  /// Where the time of steps goes. Who turns their tokens to text adds that phase. With
  /// async_scheduling prepare, launch and sample are mostly those of the other thread, and wait is
  /// the caller's for it: then the phases add up to more than the steps took.
  [[nodiscard]] StepClock& clock() noexcept { return clock_; }
  /// What steps were dispatched as: those whose results were taken, also those that failed.
  [[nodiscard]] const cudagraph::DispatchLedger& ledger() const noexcept { return ledger_; }
  /// The step whose results step() took last; valid until the next call. \pre counters().num_steps
  /// > 0
  [[nodiscard]] const ModelStep& last_step() const noexcept { return *last_step_; }

 private:
  bool launch_step();
  std::span<const Update> take_results();
  std::span<const Update> apply(ModelStep& step);
  std::span<const Update> fail(const ModelStep& step);
  std::span<const Update> fail_scheduled(std::string_view reason);
  void wait_for_oldest();
  void count(const ModelStep& step, std::span<const Update> updates);
  void record(const ModelStep& step);

  EngineCoreOptions options_;
  kv_cache::KvCacheManager kv_cache_manager_;
  Scheduler scheduler_;
  std::unordered_map<uint64_t, std::unique_ptr<Request>> requests_;
  uint64_t next_id_ = 0;
  EngineCoreCounters counters_;
  StepClock clock_;
  cudagraph::DispatchLedger ledger_;
  // A ring: those under way, and the one whose updates the caller has.
  std::vector<ModelStep> steps_;
  size_t oldest_ = 0;
  size_t num_under_way_ = 0;
  const ModelStep* last_step_ = nullptr;
  StepComputer computer_;
  std::unique_ptr<StepThread> thread_;  // last: it uses the above. Null: this one computes
};

}  // namespace reprise::engine
