#pragma once

#include <atomic>
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
#include "reprise/runner/model_runner.h"
#include "reprise/runner/model_step.h"
#include "reprise/scheduler/scheduler.h"

namespace reprise::engine {

class StepThread;

struct EngineCoreOptions {
  SchedulerConfig scheduler;
  uint64_t seed = 0;
  bool enable_prefix_caching = true;
  /// Samples on the device the rows that it can; the host samples the others. Borrowed: outlives
  /// the core. nullptr: the host samples all rows.
  kernels::RowSampler* row_sampler = nullptr;
};

/// Counts since the start. A failed step counts only as failed.
struct EngineCoreCounters {
  uint64_t num_steps = 0;
  uint64_t num_failed_steps = 0;  // not in num_steps
  /// Prompt tokens that were computed instead of found in the prefix cache. Tokens that are
  /// computed again after a preemption count again.
  uint64_t prompt_tokens = 0;
  uint64_t generation_tokens = 0;         // sampled
  uint64_t tokens_sampled_on_device = 0;  // including dropped ones
  /// Tokens sampled ahead for requests that had ended; not in generation_tokens.
  uint64_t dropped_tokens = 0;
  /// How often an answer got its token in a later step, because the work of its constraint took
  /// longer than a step waits (SchedulerConfig::constraint_time_per_step).
  uint64_t postponed_tokens = 0;
  uint64_t retired_graphs = 0;  // retired after the start
};

/// The loop around the model: schedule, compute, update. Owns requests, cache blocks and sampler;
/// borrows the runner. One thread calls it.
///
/// With SchedulerConfig::async_scheduling a thread of its own computes steps: while it computes one
/// step, the caller takes the results of the step before and schedules the step after. The tokens
/// of a request are the same either way. A stop string, a stop token or an abort takes effect one
/// step late, and the token computed in between is dropped. All work on logits happens on that
/// thread in the order of steps, so that penalties, bad words and constraints see all earlier
/// tokens.
class EngineCore {
 public:
  EngineCore(ModelRunner& runner, const EngineCoreOptions& options);
  ~EngineCore();

  /// Returns an id that no other request of this core has. Ids ascend. Thread-safe.
  [[nodiscard]] RequestId new_request_id() noexcept { return RequestId{next_id_++}; }
  /// \throws InvalidArgument when the request can never run (see Scheduler::add_request)
  void add_request(RequestId id,
                   std::vector<int32_t> prompt_token_ids,
                   const sampling::SamplingParams& params,
                   RequestOptions options = {});
  /// Adds the request under a new id, which is returned.
  RequestId add_request(std::vector<int32_t> prompt_token_ids,
                        const sampling::SamplingParams& params,
                        RequestOptions options = {});

  /// The changes that one step made to a request. A request that finished is gone when the next
  /// step begins.
  using Update = RequestUpdate;

  /// Takes the results of one step: the step that this call schedules, or with async_scheduling the
  /// one scheduled before it. Empty when there was nothing to do. The updates live until the next
  /// call. A step that throws ends its own requests as finished_error, with the reason; the others
  /// go on with the next step.
  /// \throws device::DeviceError when the device is lost (is_sticky()). Then the requests of all
  /// steps in flight have ended, and the others can only be aborted.
  std::span<const Update> step();

  /// Ends a request at any point and gives its last update, which lives until the next step.
  /// nullopt when the request is unknown or had finished. The request's blocks are free as soon as
  /// no step in flight has the request.
  std::optional<Update> abort_request(RequestId id);
  /// Ends a request because its text is complete (a stop string was found).
  void finish_request(RequestId id, const std::string& stop_string);

  /// Waits for the steps in flight and drops their results. Requests that had not ended end as
  /// finished_error, without an update, so call this when all requests have ended.
  void drop_steps();
  /// Forgets all cached prefixes. Returns false and changes nothing while any request has blocks.
  [[nodiscard]] bool reset_prefix_cache();

  [[nodiscard]] bool has_unfinished_requests() const noexcept {
    return scheduler_.has_unfinished_requests();
  }
  [[nodiscard]] const Scheduler& scheduler() const noexcept { return scheduler_; }
  [[nodiscard]] const kv_cache::KvCacheManager& kv_cache_manager() const noexcept {
    return kv_cache_manager_;
  }
  [[nodiscard]] const EngineCoreCounters& counters() const noexcept { return counters_; }
  /// The time of steps by phase. The caller adds the phase detokenise. With async_scheduling the
  /// phases prepare, launch and sample are mostly time of the computing thread, and wait is the
  /// time that the caller waits for that thread, so the sum of the phases is more than the time of
  /// the steps.
  [[nodiscard]] StepClock& clock() noexcept { return clock_; }
  /// How steps were dispatched: all steps whose results were taken, including failed ones.
  [[nodiscard]] const cudagraph::DispatchLedger& ledger() const noexcept { return ledger_; }
  /// The step whose results step() took last; valid until the next call.
  /// \pre counters().num_steps > 0
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
  std::atomic<uint64_t> next_id_ = 0;
  EngineCoreCounters counters_;
  StepClock clock_;
  cudagraph::DispatchLedger ledger_;
  // A ring: the steps in flight, and the step whose updates the caller has.
  std::vector<ModelStep> steps_;
  size_t oldest_ = 0;
  size_t num_under_way_ = 0;
  const ModelStep* last_step_ = nullptr;
  StepComputer computer_;
  /// Last, because it uses the members above. nullptr: the caller's thread computes steps.
  std::unique_ptr<StepThread> thread_;
};

}  // namespace reprise::engine
