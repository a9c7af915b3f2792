#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "reprise/sampling/sampler.h"
#include "reprise/scheduler/request.h"

namespace reprise::engine {

/// One request's part of a step: tokens [num_computed_tokens, num_computed_tokens +
/// num_scheduled_tokens) of `request->token_ids_with_placeholders()`.
struct ScheduledRequest {
  Request* request = nullptr;  // owned by the caller of add_request
  int num_scheduled_tokens = 0;
  int num_computed_tokens = 0;  // before this step
  bool samples = false;         // the step computes the last known token and samples the next
  /// The last num_drafts of the scheduled tokens are draft tokens: guesses of the next tokens. The
  /// step samples one token more than that, unless a draft is not accepted.
  int num_drafts = 0;
  /// Further tokens of the step that mean nothing. They give all requests the same number of
  /// tokens, so that the batch is a uniform decode batch.
  int num_padding_tokens = 0;
  bool is_in_prefill = false;  // computed < prefill length, whatever the number of tokens
  /// Tokens [first_imported_token, num_computed_tokens) come from Request::kv_image() and must be
  /// brought into the cache before the step; -1: none.
  int first_imported_token = -1;
  /// The states of the request are copied from this slot before the step; the null slot: they are
  /// not.
  kv_cache::StateSlot restored_state = kv_cache::kNullStateSlot;
  /// The states are copied to this slot after the step; the null slot: they are not.
  kv_cache::StateSlot saved_state = kv_cache::kNullStateSlot;
  // The prompt tokens of this part whose logits are wanted for log-probabilities.
  int first_prompt_logit = 0;  // counts from num_computed_tokens
  int num_prompt_logits = 0;
  /// Where the sampled tokens are written: the drafts, and room for one more token. The next step
  /// may read it there. A caller that computes steps ahead of update_from_output() must write it.
  /// If no token was sampled, the caller writes any valid token id. Empty unless `samples`.
  std::span<int32_t> placeholders;

  [[nodiscard]] std::span<const int32_t> token_ids() const noexcept {
    return request->token_ids_with_placeholders().subspan(
        static_cast<size_t>(num_computed_tokens), static_cast<size_t>(num_scheduled_tokens));
  }
  /// The position after the step's tokens.
  [[nodiscard]] int end() const noexcept { return num_computed_tokens + num_scheduled_tokens; }
  /// Tokens of the request in the step's batch, padding included.
  [[nodiscard]] int query_len() const noexcept { return num_scheduled_tokens + num_padding_tokens; }
  /// Rows of logits from which tokens are sampled: one per draft, and one more.
  [[nodiscard]] int num_sampled_rows() const noexcept { return samples ? 1 + num_drafts : 0; }
  /// The sampler's input for the first of these rows. \pre samples
  [[nodiscard]] sampling::SamplingInput sampling_input(std::span<const float> logits) const {
    return request->sampling_input(logits, num_computed_tokens + num_scheduled_tokens - num_drafts);
  }
};

/// Puts uniform decodes first. The others follow by their number of tokens: shorter remainders of
/// prompts, then longer prefills. Among equals, requests with computed context come first;
/// otherwise the order is kept.
/// Source: vLLM V2 sort_batch_req_ids. The difference: a prefill chunk of decode_query_len tokens
/// never sorts among the decodes.
void sort_batch(std::span<ScheduledRequest> batch, int decode_query_len);

/// One step's batch. It belongs to the scheduler, which overwrites it after the step's results are
/// applied.
struct SchedulerOutput {
  std::vector<ScheduledRequest> scheduled;  // in batch order
  int total_num_scheduled_tokens = 0;
  int num_padding_tokens = 0;     // see ScheduledRequest; not part of the total
  int num_sampling_requests = 0;  // entries of `scheduled` with `samples`
  int num_sampled_rows = 0;       // rows of logits from which tokens are sampled
  int num_logits = 0;             // rows of logits: the rows that sample, and the rows of prompts
  int max_query_len = 0;          // largest query_len()
  int num_active_loras = 0;       // different adapters of the scheduled requests
  /// Tokens at the start of all scheduled requests that lie in the same cache blocks and were
  /// computed before this step. 0 too if the configuration does not ask for it.
  int common_prefix_len = 0;
  bool any_prefill = false;
  std::vector<Request*> preempted;  // preempted by this schedule(): they have lost their blocks
  /// Requests that finished (also by abort) and since the previous schedule() are in no step any
  /// more. The receiver drops what it keeps for them; the scheduler no longer uses their Request
  /// objects.
  std::vector<RequestId> finished_request_ids;

  [[nodiscard]] bool empty() const noexcept { return scheduled.empty(); }
  [[nodiscard]] int num_reqs() const noexcept { return static_cast<int>(scheduled.size()); }
};

}  // namespace reprise::engine
