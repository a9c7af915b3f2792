#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "reprise/engine/device_sampling.h"
#include "reprise/engine/model_runner.h"
#include "reprise/engine/scheduler.h"
#include "reprise/engine/step_clock.h"
#include "reprise/sampling/sampler.h"

namespace reprise::engine {

struct EngineCoreOptions {
  SchedulerConfig scheduler;
  uint64_t seed = 0;
  bool enable_prefix_caching = true;
  /// Samples where the logits are, what it can; borrowed, and outlives the core. nullptr: the host does.
  kernels::RowSampler* row_sampler = nullptr;
};

/// What was done since the start; failed steps computed nothing.
struct EngineCoreCounters {
  uint64_t num_steps = 0;
  uint64_t num_failed_steps = 0;   // not in num_steps
  uint64_t prompt_tokens = 0;      // computed, so not found in the prefix cache; those recomputed after a preemption count again
  uint64_t generation_tokens = 0;  // sampled
  uint64_t tokens_sampled_on_device = 0;  // of these
};

/// The loop around the model: schedule, run, sample, update. Owns requests, cache blocks and sampler;
/// borrows the runner. One thread.
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

  /// Runs one step. Empty when there was nothing to do. The updates live until the next call.
  /// A step that throws ends the requests in it as finished_error, with the reason, and only those:
  /// others go on with the next step.
  /// \throws device::DeviceError when the device is lost (is_sticky()); the requests of the step have
  /// ended then too and the others can only be aborted.
  std::span<const Update> step();

  /// Ends a request at any point; unknown ids are ignored. Gives its last update, which lives until
  /// the next step, unless it had finished before.
  std::optional<Update> abort_request(RequestId id);
  /// Ends a request because its text is complete (a stop string was found).
  void finish_request(RequestId id, const std::string& stop_string);

  /// Forgets all cached prefixes. False, and nothing happens, while any block is in use.
  [[nodiscard]] bool reset_prefix_cache() { return kv_cache_manager_.reset_prefix_cache(); }

  [[nodiscard]] bool has_unfinished_requests() const noexcept { return scheduler_.has_unfinished_requests(); }
  [[nodiscard]] const Scheduler& scheduler() const noexcept { return scheduler_; }
  [[nodiscard]] const kv_cache::KvCacheManager& kv_cache_manager() const noexcept { return kv_cache_manager_; }
  [[nodiscard]] const EngineCoreCounters& counters() const noexcept { return counters_; }
  /// Where the time of steps goes. Who turns their tokens to text adds that phase.
  [[nodiscard]] StepClock& clock() noexcept { return runner_->clock(); }
  /// The batch of the last step: valid until the next one.
  [[nodiscard]] std::span<const ScheduledRequest> last_scheduled() const noexcept { return last_scheduled_; }
  [[nodiscard]] const cudagraph::BatchFacts& last_facts() const noexcept { return facts_; }
  /// Of the last step.
  [[nodiscard]] const cudagraph::Decision& last_decision() const noexcept { return last_decision_; }

 private:
  const SchedulerOutput& schedule();
  std::span<const Update> run_scheduled(const SchedulerOutput& scheduled);
  std::span<const Update> fail_scheduled(std::string_view reason);
  void build_batch(const SchedulerOutput& scheduled);
  void count(const SchedulerOutput& scheduled, std::span<const Update> updates);
  void sample_on_device(const SchedulerOutput& scheduled, const StepResult& result);
  void wait_for_device(const StepResult& result);
  void sample(const SchedulerOutput& scheduled, const StepResult& result);
  static void add_prompt_logprobs(Request& request, int position, std::span<const float> logits);
  void sample_one(const Request& request,
                  std::span<const float> logits,
                  sampling::SampledToken& sampled);
  void forget_finished(std::span<const Update> updates);

  ModelRunner* runner_;
  EngineCoreOptions options_;
  kv_cache::KvCacheManager kv_cache_manager_;
  Scheduler scheduler_;
  sampling::Sampler sampler_;
  DeviceSampling device_sampling_;
  std::vector<bool> is_on_device_;  // of the step's sampling requests, in batch order
  std::unordered_map<uint64_t, std::unique_ptr<Request>> requests_;
  std::vector<RequestId> finished_;  // reported by the last step, dropped by the next
  uint64_t next_id_ = 0;
  EngineCoreCounters counters_;
  std::span<const ScheduledRequest> last_scheduled_;
  std::vector<BatchRow> rows_;
  std::vector<sampling::SampledToken> sampled_;
  cudagraph::BatchFacts facts_;
  cudagraph::Decision last_decision_;
};

}  // namespace reprise::engine
