// What the scheduler checks of the tokens that a request brings.
#include <fmt/format.h>

#include <utility>

#include "reprise/base/error.h"
#include "reprise/scheduler/scheduler.h"

namespace reprise::engine {

void Scheduler::check_token_ids(std::span<const int32_t> token_ids) const {
  for (size_t i = 0; i < token_ids.size(); ++i) {
    if (token_ids[i] < 0 || token_ids[i] >= config_.vocab_size) {
      throw InvalidArgument(fmt::format("prompt token {} is {}, expected a token id in [0, {}]",
                                        i,
                                        token_ids[i],
                                        config_.vocab_size - 1));
    }
  }
}

/// The text that the encoder reads, which needs blocks beside those of the answer.
void Scheduler::check_encoder_text(std::span<const int32_t> text,
                                   const sampling::SamplingParams& params) const {
  if (text.empty()) throw InvalidArgument("prompt is empty, expected at least one token");
  if (std::cmp_greater(text.size(), config_.max_model_len)) {
    throw InvalidArgument(
        fmt::format("prompt has {} tokens, but the encoder of this model reads at most {}; shorten "
                    "the prompt",
                    text.size(),
                    config_.max_model_len));
  }
  check_token_ids(text);
  const auto num_decoder_tokens = static_cast<int>(config_.decoder_prompt.size());
  const int num_blocks = kv_cache_manager_->blocks_for(static_cast<int>(text.size())) +
                         kv_cache_manager_->blocks_for(num_decoder_tokens);
  if (num_blocks > kv_cache_manager_->num_blocks() - 1) {
    throw InvalidArgument(fmt::format(
        "prompt has {} tokens: with the answer's first tokens it needs {} blocks of the KV cache, "
        "which has {} of {} tokens; shorten the prompt or give the cache more memory",
        text.size(),
        num_blocks,
        kv_cache_manager_->num_blocks() - 1,
        kv_cache_manager_->block_size()));
  }
  if (params.prompt_logprobs) {
    throw InvalidArgument(
        "prompt_logprobs: the encoder of this model predicts no tokens of the prompt; leave it "
        "out");
  }
}

}  // namespace reprise::engine
