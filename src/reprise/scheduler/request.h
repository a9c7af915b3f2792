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

#include "reprise/sampling/sampler.h"
#include "reprise/sampling/sampling_params.h"
#include "reprise/scheduler/request_options.h"
#include "reprise/scheduler/request_state.h"

namespace reprise::scheduler {

/// One generation: its tokens, how far the model has computed them, and its cache blocks.
///
/// The caller that submits the request to a Scheduler (the engine core) owns it; only the Scheduler
/// changes it (state()), except for held_token().
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
  [[nodiscard]] const RequestOptions& options() const noexcept { return options_; }
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
  /// The request has waited so long that it is served before all requests that are not promoted,
  /// whatever their priority (see SchedulerConfig).
  [[nodiscard]] bool is_promoted() const noexcept { return state_.wait.is_promoted; }
  /// 0, 1, 2 ... in the order of `Scheduler::add_request`.
  [[nodiscard]] uint64_t arrival_order() const noexcept { return state_.wait.arrival_order; }

  [[nodiscard]] RequestStatus status() const noexcept { return state_.status; }
  [[nodiscard]] bool is_finished() const noexcept { return scheduler::is_finished(state_.status); }
  [[nodiscard]] std::string_view finish_reason() const {
    return scheduler::finish_reason(state_.status);
  }
  [[nodiscard]] const StopReason& stop_reason() const noexcept { return state_.stop_reason; }
  /// Why the status is finished_error; empty for every other status.
  [[nodiscard]] std::string_view error() const noexcept { return state_.error; }
  [[nodiscard]] ErrorKind error_kind() const noexcept { return state_.error_kind; }

  /// The prompt, then the output: all tokens that the model must have computed before the next
  /// token is sampled.
  [[nodiscard]] std::span<const int32_t> token_ids() const noexcept {
    return token_ids_with_placeholders().first(static_cast<size_t>(num_tokens()));
  }
  /// token_ids() and then one placeholder for each token that a step in flight may sample. A
  /// placeholder holds a draft token, or 0 for a token without a draft, until the step that samples
  /// it writes the real token there (StepEntry::placeholders). The elements never move.
  [[nodiscard]] std::span<const int32_t> token_ids_with_placeholders() const noexcept {
    return state_.token_ids;
  }
  [[nodiscard]] std::span<const int32_t> prompt_token_ids() const noexcept {
    return token_ids().first(static_cast<size_t>(num_prompt_tokens_));
  }
  [[nodiscard]] std::span<const int32_t> output_token_ids() const noexcept {
    return token_ids().subspan(static_cast<size_t>(num_prompt_tokens_));
  }
  [[nodiscard]] int num_tokens() const noexcept {
    return static_cast<int>(state_.token_ids.size()) - state_.num_placeholders;
  }
  [[nodiscard]] int num_prompt_tokens() const noexcept { return num_prompt_tokens_; }
  [[nodiscard]] int num_output_tokens() const noexcept { return num_tokens() - num_prompt_tokens_; }

  /// Number of tokens whose KV entries are in the cache once the steps in flight are done.
  [[nodiscard]] int num_computed_tokens() const noexcept { return state_.num_computed_tokens; }
  /// Number of tokens that the current prefill computes: the prompt. After a preemption the output
  /// so far is counted too, because it is recomputed like a prompt.
  [[nodiscard]] int num_prefill_tokens() const noexcept { return state_.num_prefill_tokens; }
  /// Depends on num_computed_tokens(), not on the size of the chunk: a prompt chunk of one token is
  /// prefill.
  [[nodiscard]] bool is_in_prefill() const noexcept {
    return state_.num_computed_tokens < state_.num_prefill_tokens;
  }
  [[nodiscard]] std::span<const kv_cache::BlockId> block_ids() const noexcept {
    return state_.cache.block_table.block_ids();
  }
  [[nodiscard]] kv_cache::StateSlot state_slot() const noexcept {
    return state_.cache.block_table.state_slot();
  }
  [[nodiscard]] std::span<const kv_cache::BlockId> encoder_block_ids() const noexcept {
    return state_.cache.block_table.encoder_block_ids();
  }
  [[nodiscard]] std::span<const int32_t> encoder_token_ids() const noexcept {
    return options_.encoder_token_ids;
  }
  [[nodiscard]] const kv_cache::BlockTable& block_table() const noexcept {
    return state_.cache.block_table;
  }
  /// Prompt tokens that were not computed, because the prefix cache or another engine had them when
  /// the request was first admitted.
  [[nodiscard]] int num_cached_tokens() const noexcept { return state_.cache.num_cached_tokens; }
  /// How many of num_cached_tokens() came from another engine.
  [[nodiscard]] int num_imported_tokens() const noexcept {
    return state_.cache.num_imported_tokens;
  }
  /// Keys and values from another engine that no step has brought into the cache yet; null: none.
  [[nodiscard]] const kv_cache::KvImage* kv_image() const noexcept {
    return options_.kv_image.get();
  }
  /// See RequestOptions. Only for the thread that computes steps.
  [[nodiscard]] kv_cache::KvExport* kv_export() const noexcept { return options_.kv_export.get(); }
  [[nodiscard]] int num_preemptions() const noexcept { return state_.num_preemptions; }

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
  /// The vector that a pooling model computed from the prompt; empty before that, and for other
  /// models.
  [[nodiscard]] std::span<const float> pooled() const noexcept { return pooled_; }
  /// The engine core calls this function, because it has the vectors.
  void set_pooled(std::vector<float> pooled) noexcept { pooled_ = std::move(pooled); }
  /// num_tokens never exceeds this number, placeholders included. It is the smallest of three
  /// limits: the model length, the cache capacity and max_tokens. `Scheduler::add_request` sets it.
  [[nodiscard]] int max_total_tokens() const noexcept { return state_.max_total_tokens; }
  /// Whether a step with this request is scheduled and has no results yet.
  [[nodiscard]] bool is_in_flight() const noexcept { return state_.num_steps_in_flight > 0; }

  /// The sampler's input for the token after the first `num_tokens` tokens, placeholders included,
  /// and for one row of logits. Borrows from the request and from `logits`.
  [[nodiscard]] sampling::SamplingInput sampling_input(std::span<const float> logits,
                                                       int num_tokens) const;

  /// For the scheduler and its parts only.
  [[nodiscard]] RequestState& state() noexcept { return state_; }
  [[nodiscard]] const RequestState& state() const noexcept { return state_; }
  /// Reserves memory, so that steps need none.
  void reserve_prompt_logprobs() {
    prompt_logprobs_.reserve(static_cast<size_t>(num_prompt_logits()));
  }
  /// Releases the keys and values from another engine, because they are now in the cache.
  void drop_kv_image() noexcept { options_.kv_image.reset(); }

 private:
  RequestId id_;
  sampling::SamplingParams params_;
  uint64_t sampling_seed_;
  RequestOptions options_;
  sampling::SampledToken held_token_;
  int num_prompt_tokens_;
  RequestState state_;
  std::vector<sampling::PositionLogprobs> prompt_logprobs_;
  std::vector<float> pooled_;
};

}  // namespace reprise::scheduler
