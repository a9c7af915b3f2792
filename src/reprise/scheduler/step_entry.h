#pragma once

#include <cstdint>
#include <span>

#include "reprise/kv_cache/block_pool.h"
#include "reprise/kv_cache/state_slot_pool.h"
#include "reprise/sampling/sampler.h"
#include "reprise/scheduler/request_options.h"

namespace reprise::scheduler {

class Request;

/// One request's part of a step: tokens [num_computed_tokens, end()) of the request. The scheduler
/// writes the entry once; the model, the sampler and the other ranks read it. A drafter writes
/// entries for the steps of its own model. Borrows from the request whatever does not change while
/// the step is in flight.
struct StepEntry {
  // What the model reads.
  std::span<const int32_t> token_ids;  // the new tokens of this step, at least one
  int32_t num_computed_tokens = 0;     // positions already in the cache
  std::span<const kv_cache::BlockId> block_ids;
  /// The slot with the states before the step, if the model has recurrent layers.
  kv_cache::StateSlot state_slot = kv_cache::kNullStateSlot;
  // The slot from which the states are copied before the step; the null slot: nothing is copied.
  kv_cache::StateSlot restored_state = kv_cache::kNullStateSlot;
  // The slot to which states are copied after the step; the null slot: nothing is copied.
  kv_cache::StateSlot saved_state = kv_cache::kNullStateSlot;
  int32_t saved_end = 0;  // the copy contains the states after all tokens before this position
  /// The text of the encoder, if the request's first step needs its keys and values, and the
  /// length and the blocks of that text.
  std::span<const int32_t> encoder_token_ids;
  int32_t encoder_len = 0;
  std::span<const kv_cache::BlockId> encoder_block_ids;
  const lora::LoraAdapter* adapter = nullptr;  // nullptr: none
  int32_t second_text_begin = kNoSecondText;   // the first position of the second of two texts
  /// The step computes the last known token and samples the next one: the logits of the last token
  /// are needed.
  bool samples = false;
  /// The last num_drafts tokens are draft tokens: guesses of the next tokens. If all drafts are
  /// accepted, the step samples one token more than there are drafts, so the logits of num_drafts
  /// tokens before the last one are needed too.
  int32_t num_drafts = 0;
  /// The number of further tokens that only pad the request. They give all requests the same number
  /// of tokens, so that the batch is a uniform decode batch. They write nothing to the cache, and
  /// their results are not used.
  int32_t num_padding_tokens = 0;
  // The prompt tokens of this part whose logits are needed for log-probabilities.
  int32_t first_prompt_logit = 0;  // index into token_ids
  int32_t num_prompt_logits = 0;

  // The members below are only for the request's own engine.
  // Owned by the caller of add_request; nullptr: the request belongs to no scheduler.
  Request* request = nullptr;
  bool is_in_prefill = false;  // computed < prefill length, whatever the number of tokens
  /// Tokens [first_imported_token, num_computed_tokens) come from Request::kv_image() and must be
  /// brought into the cache before the step; -1: none.
  int32_t first_imported_token = -1;
  /// The memory for the sampled tokens: the drafts, and room for one more token. The next step may
  /// read a sampled token there, so a caller that computes steps ahead of update_from_output() must
  /// write it. If no token was sampled, the caller writes any valid token id. Empty unless
  /// `samples`.
  std::span<int32_t> placeholders;

  /// The number of the step's tokens, without padding.
  [[nodiscard]] int32_t num_tokens() const noexcept {
    return static_cast<int32_t>(token_ids.size());
  }
  /// The position after the step's tokens.
  [[nodiscard]] int32_t end() const noexcept { return num_computed_tokens + num_tokens(); }
  /// The slot that holds the states after token `index` of the step when the step is done. If
  /// tokens of the step may be rejected, the step leaves the states after each token in another
  /// slot; otherwise it keeps only the states after the last token.
  [[nodiscard]] kv_cache::StateSlot state_slot_after(int32_t index,
                                                     int32_t slots_per_req) const noexcept {
    const bool keeps_all = num_drafts > 0 || num_padding_tokens > 0;
    if (!keeps_all || state_slot == kv_cache::kNullStateSlot) return state_slot;
    return kv_cache::state_slot_behind(state_slot, index, slots_per_req);
  }
  /// The number of the request's tokens in the step's batch, including padding.
  [[nodiscard]] int32_t query_len() const noexcept { return num_tokens() + num_padding_tokens; }
  /// The number of rows of logits from which tokens are sampled: one per draft, and one more.
  [[nodiscard]] int32_t num_sampled_rows() const noexcept { return samples ? 1 + num_drafts : 0; }
  [[nodiscard]] int32_t num_logits() const noexcept {
    return num_prompt_logits + num_sampled_rows();
  }
  /// The sampler's input for the first of these rows. \pre samples
  [[nodiscard]] sampling::SamplingInput sampling_input(std::span<const float> logits) const;
};

}  // namespace reprise::scheduler
