#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reprise/kv_cache/block_hash.h"
#include "reprise/kv_cache/kv_cache_manager.h"
#include "reprise/sampling/sampler.h"
#include "reprise/sampling/sampling_params.h"
#include "reprise/scheduler/request_options.h"
#include "reprise/speculative/draft_gate.h"

namespace reprise::engine {

class Scheduler;

/// vLLM's RequestStatus. A request goes waiting -> running <-> preempted, and from any of these to
/// one finished_* status, which is final.
enum class RequestStatus : uint8_t {
  waiting,
  running,
  preempted,         // the request lost its blocks and waits to be recomputed
  finished_stopped,  // EOS, stop token or stop string
  finished_length,   // max_tokens or the context is full
  finished_aborted,
  finished_error,
};
[[nodiscard]] constexpr bool is_finished(RequestStatus status) noexcept {
  return status >= RequestStatus::finished_stopped;
}
[[nodiscard]] std::string_view to_string(RequestStatus status);
/// "stop", "length", "abort", "error"; empty while not finished.
[[nodiscard]] std::string_view finish_reason(RequestStatus status);

/// One generation: its tokens, how far the model has computed them, and its cache blocks.
///
/// The caller that submits the request to a Scheduler (the engine core) owns it; only the Scheduler
/// changes it, except for held_token().
/// Address-stable: the scheduler keeps pointers until the request is reported finished.
class Request {
 public:
  /// A request without its own seed samples with `derive_seed(engine_seed, id)`.
  Request(RequestId id,
          std::vector<int32_t> prompt_token_ids,
          sampling::SamplingParams params,
          uint64_t engine_seed = 0,
          RequestOptions options = {});
  Request(const Request&) = delete;
  Request& operator=(const Request&) = delete;

  [[nodiscard]] RequestId id() const noexcept { return id_; }
  [[nodiscard]] const sampling::SamplingParams& params() const noexcept { return params_; }
  [[nodiscard]] uint64_t sampling_seed() const noexcept { return sampling_seed_; }
  [[nodiscard]] int priority() const noexcept { return options_.priority; }
  [[nodiscard]] const std::shared_ptr<structured_output::TokenConstraint>& constraint()
      const noexcept {
    return options_.constraint;
  }
  [[nodiscard]] int32_t second_text_begin() const noexcept { return options_.second_text_begin; }
  [[nodiscard]] const lora::LoraAdapter* adapter() const noexcept { return options_.adapter.get(); }
  /// 0: no adapter.
  [[nodiscard]] uint64_t lora_id() const noexcept { return options_.lora_id; }
  /// A token that was sampled and waits for the constraint. Only for the thread that computes
  /// steps.
  [[nodiscard]] sampling::SampledToken& held_token() noexcept { return held_token_; }
  [[nodiscard]] std::string_view cache_salt() const noexcept { return options_.cache_salt; }
  /// The request has waited so long that it is served before requests of every priority (see
  /// SchedulerConfig).
  [[nodiscard]] bool is_promoted() const noexcept { return is_promoted_; }
  /// 0, 1, 2 ... in the order of `Scheduler::add_request`.
  [[nodiscard]] uint64_t arrival_order() const noexcept { return arrival_order_; }

  [[nodiscard]] RequestStatus status() const noexcept { return status_; }
  [[nodiscard]] bool is_finished() const noexcept { return engine::is_finished(status_); }
  [[nodiscard]] std::string_view finish_reason() const { return engine::finish_reason(status_); }
  [[nodiscard]] const StopReason& stop_reason() const noexcept { return stop_reason_; }
  /// Why the status is finished_error; empty for every other status.
  [[nodiscard]] std::string_view error() const noexcept { return error_; }
  [[nodiscard]] ErrorKind error_kind() const noexcept { return error_kind_; }

  /// The prompt, then the output: all tokens that the model must have computed before the next
  /// token is sampled.
  [[nodiscard]] std::span<const int32_t> token_ids() const noexcept {
    return token_ids_with_placeholders().first(static_cast<size_t>(num_tokens()));
  }
  /// token_ids() and then one placeholder for each token that a step in flight may sample. A
  /// placeholder holds a draft token, or 0 for a token without a draft, until the step that samples
  /// it writes the real token there (ScheduledRequest::placeholders). The elements never move.
  [[nodiscard]] std::span<const int32_t> token_ids_with_placeholders() const noexcept {
    return token_ids_;
  }
  [[nodiscard]] std::span<const int32_t> prompt_token_ids() const noexcept {
    return token_ids().first(static_cast<size_t>(num_prompt_tokens_));
  }
  [[nodiscard]] std::span<const int32_t> output_token_ids() const noexcept {
    return token_ids().subspan(static_cast<size_t>(num_prompt_tokens_));
  }
  [[nodiscard]] int num_tokens() const noexcept {
    return static_cast<int>(token_ids_.size()) - num_placeholders_;
  }
  [[nodiscard]] int num_prompt_tokens() const noexcept { return num_prompt_tokens_; }
  [[nodiscard]] int num_output_tokens() const noexcept { return num_tokens() - num_prompt_tokens_; }

  /// Number of tokens whose KV entries are in the cache once the steps in flight are done.
  [[nodiscard]] int num_computed_tokens() const noexcept { return num_computed_tokens_; }
  /// Number of tokens that the current prefill computes: the prompt. After a preemption the output
  /// so far is counted too, because it is recomputed like a prompt.
  [[nodiscard]] int num_prefill_tokens() const noexcept { return num_prefill_tokens_; }
  /// Depends on num_computed_tokens(), not on the size of the chunk: a prompt chunk of one token is
  /// prefill.
  [[nodiscard]] bool is_in_prefill() const noexcept {
    return num_computed_tokens_ < num_prefill_tokens_;
  }
  [[nodiscard]] std::span<const kv_cache::BlockId> block_ids() const noexcept {
    return block_table_.block_ids();
  }
  [[nodiscard]] kv_cache::StateSlot state_slot() const noexcept {
    return block_table_.state_slot();
  }
  [[nodiscard]] std::span<const kv_cache::BlockId> encoder_block_ids() const noexcept {
    return block_table_.encoder_block_ids();
  }
  [[nodiscard]] std::span<const int32_t> encoder_token_ids() const noexcept {
    return options_.encoder_token_ids;
  }
  [[nodiscard]] const kv_cache::BlockTable& block_table() const noexcept { return block_table_; }
  /// Prompt tokens that were not computed, because the prefix cache or another engine had them when
  /// the request was first admitted.
  [[nodiscard]] int num_cached_tokens() const noexcept { return num_cached_tokens_; }
  /// How many of them came from another engine.
  [[nodiscard]] int num_imported_tokens() const noexcept { return num_imported_tokens_; }
  /// Keys and values from another engine that no step has brought into the cache yet; null: none.
  [[nodiscard]] const kv_cache::KvImage* kv_image() const noexcept {
    return options_.kv_image.get();
  }
  /// See RequestOptions. Only for the thread that computes steps.
  [[nodiscard]] kv_cache::KvExport* kv_export() const noexcept { return options_.kv_export.get(); }
  [[nodiscard]] int num_preemptions() const noexcept { return num_preemptions_; }

  /// Number of prompt positions whose logits give log-probabilities: all but the last position,
  /// whose logits sample the first output token.
  [[nodiscard]] int num_prompt_logits() const noexcept {
    return params_.prompt_logprobs ? num_prompt_tokens_ - 1 : 0;
  }
  /// Log-probabilities of prompt tokens 1, 2, ... as far as they are computed; token 0 has none.
  /// Entries are never removed: a preemption keeps the values that were computed before it.
  [[nodiscard]] std::span<const sampling::PositionLogprobs> prompt_logprobs() const noexcept {
    return prompt_logprobs_;
  }
  /// The engine core calls this function, because it has the logits.
  void add_prompt_logprobs(sampling::PositionLogprobs logprobs) {
    prompt_logprobs_.push_back(std::move(logprobs));
  }
  /// The vector that a pooling model made of the prompt; empty before, and for other models.
  [[nodiscard]] std::span<const float> pooled() const noexcept { return pooled_; }
  /// The engine core calls this function, because it has the vectors.
  void set_pooled(std::vector<float> pooled) noexcept { pooled_ = std::move(pooled); }
  /// num_tokens never exceeds this number, placeholders included. It is the smallest of three
  /// limits: the model length, the cache capacity and max_tokens. `Scheduler::add_request` sets it.
  [[nodiscard]] int max_total_tokens() const noexcept { return max_total_tokens_; }
  /// Whether a step with this request is scheduled and has no results yet.
  [[nodiscard]] bool is_in_flight() const noexcept { return num_steps_in_flight_ > 0; }

  /// The sampler's input for the token after the first `num_tokens` tokens, placeholders included,
  /// and for one row of logits. Borrows from the request and from `logits`.
  [[nodiscard]] sampling::SamplingInput sampling_input(std::span<const float> logits,
                                                       int num_tokens) const;

 private:
  friend class Scheduler;
  friend class RequestQueue;

  RequestId id_;
  sampling::SamplingParams params_;
  uint64_t sampling_seed_;
  RequestOptions options_;
  sampling::SampledToken held_token_;
  uint64_t arrival_order_ = 0;
  uint64_t queued_at_step_ = 0;    // when the request last began to wait
  uint64_t num_steps_waited_ = 0;  // steps waited before queued_at_step_
  bool is_promoted_ = false;

  RequestStatus status_ = RequestStatus::waiting;
  StopReason stop_reason_;
  std::string error_;
  ErrorKind error_kind_ = ErrorKind::internal;

  std::vector<int32_t> token_ids_;  // the last num_placeholders_ tokens are not known yet
  int num_placeholders_ = 0;
  speculative::DraftGate draft_gate_;
  bool is_postponed_ = false;  // the last step should have sampled a token, but did not
  int num_prompt_tokens_;
  int num_computed_tokens_ = 0;
  int num_prefill_tokens_;
  int max_total_tokens_ = 0;
  int num_prompt_logits_scheduled_ = 0;
  std::vector<sampling::PositionLogprobs> prompt_logprobs_;
  std::vector<float> pooled_;
  std::vector<int32_t> all_stop_token_ids_;  // EOS and stop_token_ids: suppressed below min_tokens

  kv_cache::BlockTable block_table_;
  kv_cache::BlockHashChain block_hashes_;  // the hashes of the blocks of token_ids_
  // Where the states of the next step come from, and where the cached blocks end that have none.
  kv_cache::StateSlot restored_state_ = kv_cache::kNullStateSlot;
  int shared_prefix_boundary_ = 0;
  // The block of the last snapshot behind the prompt. The next one replaces it.
  std::optional<kv_cache::BlockHash> answer_snapshot_;
  int num_cached_tokens_ = 0;
  int num_imported_tokens_ = 0;
  int first_imported_token_ = -1;  // ScheduledRequest::first_imported_token of the next step
  int num_preemptions_ = 0;
  const Scheduler* scheduler_ = nullptr;  // the scheduler that knows this request, if any
  int num_steps_in_flight_ = 0;           // scheduled, but without results yet
  Request* queue_prev_ = nullptr;         // links of the waiting queue, owned by RequestQueue
  Request* queue_next_ = nullptr;
};

}  // namespace reprise::engine
