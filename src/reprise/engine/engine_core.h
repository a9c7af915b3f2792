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
  scheduler::SchedulerConfig scheduler;
  uint64_t seed = 0;
  /// A model with recurrent layers then also needs state slots for cached prefixes, besides one for
  /// each request: see num_state_snapshots.
  bool enable_prefix_caching = true;
  /// The number of cached copies of states. Their slots come after those of requests. 0: without
  /// recurrent layers, or without prefix caching.
  int num_state_snapshots = 0;
  /// Samples rows on the device, where possible; the host samples the other rows. Borrowed: it must
  /// outlive the core. nullptr: the host samples all rows.
  kernels::RowSampler* row_sampler = nullptr;
  /// Proposes draft tokens. Borrowed: it must outlive the core. nullptr: tokens come one at a time.
  /// \pre if the drafter follows steps: no async_scheduling and no row sampler
  speculative::Drafter* drafter = nullptr;
  /// Counts of the tokens of experts, which the runner's steps write. Borrowed: must outlive the
  /// core. nullptr: no counts.
  runner::ExpertCounts* expert_counts = nullptr;
  /// Compares replays of the model and of the drafter with eager runs. Borrowed: must outlive the
  /// core. nullptr: no comparisons.
  const runner::ShadowCheck* shadow = nullptr;
  const runner::ShadowCheck* draft_shadow = nullptr;
  /// Is told which prefixes are cached; on_step_end() follows each step and each reset of the
  /// cache. Borrowed: it must outlive the core. nullptr: no listener.
  kv_cache::CacheListener* cache_listener = nullptr;
};

/// Counts since the start of the engine.
struct EngineCoreCounters {
  uint64_t num_steps = 0;
  uint64_t num_failed_steps = 0;  // failed steps; they are not part of num_steps
  /// Prompt tokens that were computed; tokens that were found in the prefix cache do not count.
  /// Tokens that are computed again after a preemption count again.
  uint64_t prompt_tokens = 0;
  uint64_t generation_tokens = 0;         // sampled, and drafts that were accepted
  uint64_t tokens_sampled_on_device = 0;  // including tokens that were dropped
  /// Steps that were given to the device before the step ahead of them was finished.
  uint64_t steps_launched_ahead = 0;
  /// Tokens that were sampled in a step that was scheduled before its request ended. They are not
  /// part of generation_tokens.
  uint64_t dropped_tokens = 0;
  /// How often an answer got a token only in a later step, because the work of its constraint took
  /// longer than a step waits (SchedulerConfig::constraint_time_per_step).
  uint64_t postponed_tokens = 0;
  uint64_t retired_graphs = 0;  // graphs retired after the start-up
};

/// The loop around the model: schedules steps, computes them, and updates the requests. Owns the
/// requests, the cache blocks and the sampler; borrows the runner. Only one thread may call it,
/// except new_request_id().
///
/// With SchedulerConfig::async_scheduling, two steps are in flight: while step n is computed, the
/// caller takes the results of step n - 1 and schedules step n + 1. Requests get the same tokens
/// with and without async_scheduling. But a stop string, a stop token or an abort takes effect one
/// step later: the token that was computed in between is dropped. Logits are processed strictly in
/// the order of steps, so that penalties, bad words and constraints see all earlier tokens.
///
/// Without a row sampler a second thread computes the steps. With one, the device works behind the
/// caller, so there is no second thread: the caller launches step n + 1 before it waits for step n,
/// whose tokens stay on the device. Where the host chooses a token of step n, it waits first.
class EngineCore {
 public:
  EngineCore(runner::ModelRunner& runner, const EngineCoreOptions& options);
  ~EngineCore();

  /// Returns a new request id. Ids ascend. Thread-safe.
  [[nodiscard]] scheduler::RequestId new_request_id() noexcept {
    return scheduler::RequestId{next_id_++};
  }
  /// \throws InvalidArgument when the request can never run (see Scheduler::add_request)
  void add_request(scheduler::RequestId id,
                   std::vector<int32_t> prompt_token_ids,
                   const sampling::SamplingParams& params,
                   scheduler::RequestOptions options = {});
  /// Adds the request under a new id and returns the id.
  scheduler::RequestId add_request(std::vector<int32_t> prompt_token_ids,
                                   const sampling::SamplingParams& params,
                                   scheduler::RequestOptions options = {});

  /// The change of one request by one step. A request that finished in a step is deleted when the
  /// next step begins.
  using Update = scheduler::RequestUpdate;

  /// Schedules a step, waits for the results of the oldest step in flight, and returns its updates.
  /// Without async_scheduling the oldest step is the step just scheduled; with it, the step before.
  /// Empty if there was nothing to do. The updates are valid until the next call. If computing a
  /// step throws, the requests of that step end as finished_error with the reason, and other
  /// requests go on.
  /// \throws device::DeviceError when the device is lost (is_sticky()). Then the requests of all
  /// steps in flight have ended, and the other requests can only be aborted.
  std::span<const Update> step();

  /// While held, step() launches no step and only takes the results of steps in flight. Between two
  /// steps that are not held, is_quiet() is true only without async_scheduling.
  void hold_steps(bool held) noexcept { is_held_ = held; }
  /// Whether no step is in flight.
  [[nodiscard]] bool is_quiet() const noexcept { return num_under_way_ == 0; }
  /// See SchedulerConfig::pad_drafts.
  void set_pad_drafts(bool pads) noexcept { scheduler_.set_pad_drafts(pads); }

  /// Ends a request at any time and returns its last update, which is valid until the next step.
  /// nullopt if the request is unknown or has already finished. The request's cache blocks are
  /// freed once no step in flight contains the request.
  std::optional<Update> abort_request(scheduler::RequestId id);
  /// Ends a request because its text is complete (a stop string was found).
  void finish_request(scheduler::RequestId id, const std::string& stop_string);

  /// Waits for the steps in flight and drops their results. Requests that have not ended become
  /// finished_error without an update, so call this only when all requests have ended.
  void drop_steps();
  /// Drops all cached prefixes. Returns false and changes nothing if any request owns cache blocks.
  [[nodiscard]] bool reset_prefix_cache();

  [[nodiscard]] bool has_unfinished_requests() const noexcept {
    return scheduler_.has_unfinished_requests();
  }
  [[nodiscard]] const scheduler::Scheduler& scheduler() const noexcept { return scheduler_; }
  [[nodiscard]] const kv_cache::KvCacheManager& kv_cache_manager() const noexcept {
    return kv_cache_manager_;
  }
  [[nodiscard]] const EngineCoreCounters& counters() const noexcept { return counters_; }
  /// The time of steps by phase. The caller adds the phase detokenise. With async_scheduling,
  /// and without a row sampler, prepare, launch and sample are mostly times of the computing
  /// thread, and wait is the time that the caller waits for that thread. Both threads work at once,
  /// so the sum of all phases exceeds the elapsed time.
  [[nodiscard]] StepClock& clock() noexcept { return clock_; }
  /// Counts the dispatch decisions of all steps whose results were taken, including failed steps.
  [[nodiscard]] const cudagraph::DispatchLedger& ledger() const noexcept { return ledger_; }
  /// The comparisons of replays with eager runs, of the model and of the drafter. nullptr: no
  /// comparisons.
  [[nodiscard]] const runner::ShadowCheck* shadow() const noexcept { return options_.shadow; }
  [[nodiscard]] const runner::ShadowCheck* draft_shadow() const noexcept {
    return options_.draft_shadow;
  }
  /// nullptr: the tokens of experts are not counted.
  [[nodiscard]] runner::ExpertCounts* expert_counts() const noexcept {
    return options_.expert_counts;
  }
  /// The decisions of the draft model's steps. nullptr: there is no draft model.
  [[nodiscard]] const cudagraph::DispatchLedger* draft_ledger() const noexcept {
    return options_.drafter == nullptr ? nullptr : options_.drafter->ledger();
  }
  /// The step whose results the last step() returned; valid until the next call.
  /// \pre counters().num_steps > 0
  [[nodiscard]] const runner::ModelStep& last_step() const noexcept { return *last_step_; }

 private:
  bool launch_step();
  std::span<const Update> take_results();
  std::span<const Update> apply(runner::ModelStep& step);
  std::span<const Update> fail(const runner::ModelStep& step);
  std::span<const Update> fail_scheduled(std::string_view reason);
  void launch(runner::ModelStep& step);
  void wait_for_oldest();
  void count(const runner::ModelStep& step, std::span<const Update> updates);
  void report_cache() const;
  void record(const runner::ModelStep& step);

  EngineCoreOptions options_;
  kv_cache::KvCacheManager kv_cache_manager_;
  scheduler::Scheduler scheduler_;
  std::unordered_map<uint64_t, std::unique_ptr<scheduler::Request>> requests_;
  std::atomic<uint64_t> next_id_ = 0;
  EngineCoreCounters counters_;
  StepClock clock_;
  cudagraph::DispatchLedger ledger_;
  // A ring that holds the steps in flight and the step whose updates the caller has.
  std::vector<runner::ModelStep> steps_;
  size_t oldest_ = 0;
  size_t num_under_way_ = 0;
  bool is_held_ = false;
  const runner::ModelStep* last_step_ = nullptr;
  runner::StepComputer computer_;
  bool launches_ahead_ = false;  // the caller launches a step before the step ahead is finished
  /// Declared last, because the thread uses the members above. nullptr: the caller's thread
  /// computes steps.
  std::unique_ptr<StepThread> thread_;
};

}  // namespace reprise::engine
