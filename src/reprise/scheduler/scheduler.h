#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/kv_cache/kv_cache_manager.h"
#include "reprise/sampling/sampler.h"
#include "reprise/scheduler/adapter_set.h"
#include "reprise/scheduler/admission_checks.h"
#include "reprise/scheduler/chunk_rule.h"
#include "reprise/scheduler/draft_queue.h"
#include "reprise/scheduler/prefix_rule.h"
#include "reprise/scheduler/prompt_logits_budget.h"
#include "reprise/scheduler/request.h"
#include "reprise/scheduler/scheduler_config.h"
#include "reprise/scheduler/scheduler_output.h"
#include "reprise/scheduler/snapshot_rule.h"
#include "reprise/scheduler/stop_checker.h"
#include "reprise/scheduler/waiting_line.h"
#include "reprise/speculative/drafter.h"
#include "reprise/speculative/speculation_stats.h"

namespace reprise::scheduler {

/// A change that one step made to one request: a new token, the end of the request, or both. The
/// updates of a request that got several tokens follow each other.
struct RequestUpdate {
  Request* request = nullptr;
  std::optional<int32_t> new_token_id;              // already in request->output_token_ids()
  const sampling::SampledToken* sampled = nullptr;  // for new_token_id; owned by the engine core
  /// The request's status, finish_reason and stop_reason are final, and this is its last update.
  /// The request may still be part of a step in flight: see SchedulerOutput::finished_request_ids.
  bool finished = false;
};

/// Counts tokens since the start, like vLLM's prefix_cache_queries and prefix_cache_hits. The
/// tokens of a request are counted when it is first admitted, unless it may not use the cache.
struct PrefixCacheStats {
  uint64_t queries = 0;  // prompt tokens that were looked up
  uint64_t hits = 0;     // prompt tokens that were found
  // Copies of states of recurrent layers. Steps that failed are not counted.
  uint64_t states_saved = 0;
  uint64_t states_restored = 0;
};

/// Tells the owner of an aborted request when it may destroy the request.
enum class AbortResult : uint8_t {
  released,             // now
  released_after_step,  // a step in flight uses the request; see finished_request_ids
  already_finished,     // nothing to do
};

/// Iteration-level scheduling as in vLLM V1: no prefill or decode phases, only requests whose
/// computed tokens catch up with their known tokens.
///
/// Requests are ranked by the policy; fcfs ranks by arrival. A step serves running requests by
/// rank, then admits waiting ones by rank and stops at the first that does not fit. The limits are
/// max_num_batched_tokens, max_num_seqs and the free KV blocks; prompts are cut into chunks to fill
/// the budget (unless chunked prefill is off). When a running request needs a block and none is
/// free, the running request that ranks last is preempted: it loses its blocks and waits, at its
/// rank, to be recomputed. The request that ranks first is never preempted for another one, so some
/// request always makes progress. A waiting request never preempts a running one.
///
/// A step has at most max_loras different adapters. A waiting request whose adapter would be one
/// more is passed over until a running adapter is done; to keep it from waiting for ever, no other
/// request overtakes it any more once it has waited max_lora_wait_steps steps.
///
/// A step has at most max_prompt_logits rows of logits for prompts. A waiting request that needs
/// one of them, when none is left, is passed over too: log-probabilities of long prompts take many
/// steps, and requests without them would wait for all of these.
///
/// With prefix caching, an admitted request begins after the cached whole blocks of its tokens, but
/// always has at least one token to compute. A model with recurrent layers needs a snapshot of
/// their states there, so chunks of its prompts end where a snapshot is taken: at the last block
/// end before the last token, where cached blocks end that have no snapshot, and at each multiple
/// of prefix_cache_retention_interval. Behind the prompt the last block end is kept. With
/// state_chunk_tokens, prompts are cut only at multiples of it, and these places move there. Blocks
/// are published when their step has succeeded. A request that fails takes its blocks out of the
/// cache, because their content is unknown.
///
/// Life-cycle: add_request ... { schedule, run the model, update_from_output } ... With
/// async_scheduling a second schedule() may come before the update of the first; updates keep the
/// order of the steps. The second step may then contain a request whose last token is not known yet
/// (a placeholder), but no request is scheduled beyond its length limit. When the first step ends
/// such a request by another rule, the second step's result for it is dropped, and the request
/// keeps its blocks until that step is done. Preemption never takes blocks that a step in flight
/// uses.
///
/// With a drafter, a request that only has to compute its last token gets draft tokens, which are
/// guesses of its next tokens, and cache blocks for them. Drafts take neither blocks from other
/// requests nor the last token of the budget that another running request needs. After the step the
/// accepted drafts have become tokens of the request. The others are taken back: the request counts
/// as computed up to its last accepted token, only blocks of accepted tokens are published, and the
/// next step overwrites the cache entries of rejected drafts. The states of recurrent layers after
/// each draft lie in a slot of their own, and the request goes on from the last accepted one.
///
/// The scheduler borrows a request from add_request until its id is among finished_request_ids or
/// an abort releases it. Not thread-safe. After warm-up a step does not allocate memory;
/// add_request does.
class Scheduler {
 public:
  /// `kv_cache_manager` and `drafter` must outlive the scheduler, and no other object may allocate
  /// from the first. Without a drafter there are no draft tokens.
  /// \throws InvalidArgument for options that cannot work (the message says which and why).
  Scheduler(SchedulerConfig config,
            kv_cache::KvCacheManager& kv_cache_manager,
            speculative::Drafter* drafter = nullptr);
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  /// Checks whether a request can ever run. Reads only constant data, so any thread may call it at
  /// any time.
  /// \throws InvalidArgument for an empty prompt, a token outside the vocabulary, a prompt that
  /// leaves no room for one output token in max_model_len() or cannot fit the KV cache, and for bad
  /// sampling parameters and options.
  void check_admissible(std::span<const int32_t> prompt_token_ids,
                        const sampling::SamplingParams& params,
                        const RequestOptions& options = {}) const {
    checks_.check(prompt_token_ids, params, options);
  }

  /// Queues a new request. \throws InvalidArgument like check_admissible(); the scheduler then does
  /// not keep the request
  void add_request(Request& request);

  /// Ends a request at any time, also between schedule() and update_from_output().
  AbortResult abort_request(Request& request);
  /// Ends a request with `status` (finished_*), e.g. because a stop string was found in its text.
  AbortResult finish_request(Request& request, RequestStatus status, StopReason stop_reason = {});

  /// Chooses the batch of the next step. The batch is empty when no request can run, or when all of
  /// them need the results of the step in flight first. \pre can_schedule()
  const SchedulerOutput& schedule();
  /// Whether one more step may be in flight.
  [[nodiscard]] bool can_schedule() const noexcept {
    return num_in_flight_ < (config_.async_scheduling ? kMaxStepsInFlight : 1);
  }
  static constexpr size_t kMaxStepsInFlight = 2;

  /// Applies the results of the oldest step in flight: appends the sampled tokens and applies the
  /// stop rules. Frees the blocks of requests that finished and are in no other step. `sampled` has
  /// one entry per sampled row of logits, in batch order. A request's rows from the first with
  /// status `not_reached` or `postponed` on give no token; if that is its first row, the request
  /// samples again in a later step. The status `no_allowed_token` ends the answer. Every other
  /// status except `ok`, and an id outside the vocabulary, ends the request as finished_error. The
  /// other requests go on. Returns one entry per new token, and one per request that finished
  /// without a new token; valid until the next call.
  std::span<const RequestUpdate> update_from_output(
      std::span<const sampling::SampledToken> sampled);

  /// Called instead of update_from_output() when the step could not be computed. The step may have
  /// written anything into the blocks of its requests, so these requests end as finished_error and
  /// give their blocks back; no other request is touched. Returns one entry per scheduled request
  /// that had not finished before.
  std::span<const RequestUpdate> fail_scheduled(std::string_view reason);

  /// Whether requests run or wait, or steps are in flight.
  [[nodiscard]] bool has_unfinished_requests() const noexcept {
    return !running_.empty() || !waiting_.empty() || num_in_flight_ > 0;
  }
  [[nodiscard]] size_t num_running() const noexcept { return running_.size(); }
  [[nodiscard]] size_t num_waiting() const noexcept { return waiting_.size(); }
  [[nodiscard]] int64_t num_preemptions() const noexcept { return num_preemptions_; }
  [[nodiscard]] PrefixCacheStats prefix_cache_stats() const noexcept {
    return {.queries = prefixes_.num_queried(),
            .hits = prefixes_.num_hit(),
            .states_saved = snapshots_.num_saved(),
            .states_restored = snapshots_.num_restored()};
  }
  [[nodiscard]] const speculative::SpeculationStats& speculation_stats() const noexcept {
    return drafts_.stats();
  }
  /// The effective limit: min(config.max_model_len, KV cache capacity). If it is less than the
  /// configured limit, the cache is too small for that, which deserves a warning at start-up.
  [[nodiscard]] int max_model_len() const noexcept { return checks_.max_model_len(); }
  [[nodiscard]] const SchedulerConfig& config() const noexcept { return config_; }
  /// See SchedulerConfig::pad_drafts. For the steps that are scheduled from now on.
  void set_pad_drafts(bool pads) noexcept { config_.pad_drafts = pads; }

 private:
  [[nodiscard]] int find_max_total_tokens(const Request& request) const;
  [[nodiscard]] SchedulerOutput& oldest_in_flight() { return outputs_[oldest_]; }
  [[nodiscard]] bool schedule_running(int& token_budget);
  void schedule_waiting(int& token_budget);
  bool admit(Request& request, int token_budget);
  [[nodiscard]] int tokens_to_schedule(const Request& request, int token_budget) const;
  void append_to_batch(Request& request, int num_scheduled_tokens, int num_drafts = 0);
  void finish_batch();
  void start_running(Request& request);
  void preempt_last_running();
  void apply_results(const StepEntry& entry, std::span<const sampling::SampledToken> sampled);
  int append_tokens(const StepEntry& entry, std::span<const sampling::SampledToken> sampled);
  void append_token(Request& request, const sampling::SampledToken& sampled);
  void fail(Request& request, std::string_view message, ErrorKind kind = ErrorKind::internal);
  void end_step();
  void release(Request& request);

  SchedulerConfig config_;
  kv_cache::KvCacheManager* kv_cache_manager_;  // owned by the engine core
  AdmissionChecks checks_;
  StopChecker stop_checker_;

  WaitingLine waiting_;
  std::vector<Request*> running_;                           // ordered by rank, like waiting_
  std::array<SchedulerOutput, kMaxStepsInFlight> outputs_;  // a ring of steps in flight
  size_t oldest_ = 0;
  size_t num_in_flight_ = 0;
  SchedulerOutput* output_ = &outputs_[0];  // the step being scheduled
  std::vector<RequestId> finished_since_schedule_;
  std::vector<RequestUpdate> updates_;
  // The adapters of the running requests, or of the step that is being finished.
  AdapterSet adapters_;
  PromptLogitsBudget prompt_logits_;
  PrefixRule prefixes_;
  SnapshotRule snapshots_;
  ChunkRule chunks_;
  DraftQueue drafts_;
  uint64_t num_schedules_ = 0;
  int64_t num_preemptions_ = 0;
};

}  // namespace reprise::scheduler
