#include "reprise/scheduler/scheduler_config.h"

#include <fmt/format.h>

#include <string_view>

#include "reprise/base/error.h"

namespace reprise::scheduler {
namespace {

void require_at_least(std::string_view option, int value, int low) {
  if (value < low) {
    throw InvalidArgument(
        fmt::format("scheduler: {} is {}, expected at least {}", option, value, low));
  }
}

/// A prompt that finds no room for a chunk in any step would wait for ever.
void check_state_chunks(const SchedulerConfig& config) {
  require_at_least("state_chunk_tokens", config.state_chunk_tokens, 1);
  if (config.state_chunk_tokens == 1) return;
  require_at_least("max_prompt_logits", config.max_prompt_logits, config.state_chunk_tokens);
  const int most_decoded = (config.max_num_seqs - 1) * config.decode_query_len;
  if (config.max_num_batched_tokens < most_decoded + config.state_chunk_tokens) {
    throw InvalidArgument(fmt::format(
        "scheduler: the model's recurrent layers are computed in chunks of {} tokens, and "
        "max_num_batched_tokens ({}) leaves no room for one beside {} decoded tokens of other "
        "requests; raise it to at least {}, lower max_num_seqs ({}), or ask for batch invariance, "
        "with which prompts are computed token after token",
        config.state_chunk_tokens,
        config.max_num_batched_tokens,
        most_decoded,
        most_decoded + config.state_chunk_tokens,
        config.max_num_seqs));
  }
  const int threshold = config.long_prefill_token_threshold;
  if (threshold == 0 || threshold >= config.state_chunk_tokens) return;
  throw InvalidArgument(
      fmt::format("scheduler: long_prefill_token_threshold ({}) is smaller than the chunks of {} "
                  "tokens in which the model's recurrent layers are computed; set it to 0 or to at "
                  "least {}",
                  threshold,
                  config.state_chunk_tokens,
                  config.state_chunk_tokens));
}

}  // namespace

void check_config(const SchedulerConfig& config, int max_model_len) {
  require_at_least("max_num_seqs", config.max_num_seqs, 1);
  require_at_least("max_num_batched_tokens", config.max_num_batched_tokens, 1);
  require_at_least("max_model_len", config.max_model_len, 2);  // one prompt and one output token
  require_at_least("long_prefill_token_threshold", config.long_prefill_token_threshold, 0);
  require_at_least("max_prompt_logits", config.max_prompt_logits, 1);
  require_at_least("decode_query_len", config.decode_query_len, 1);
  require_at_least("max_loras", config.max_loras, 0);
  require_at_least("max_lora_wait_steps", config.max_lora_wait_steps, 1);
  require_at_least("vocab_size", config.vocab_size, 1);
  require_at_least("max_priority_wait_steps", config.max_priority_wait_steps, 1);
  if (config.max_num_batched_tokens < config.max_num_seqs) {
    throw InvalidArgument(fmt::format(
        "scheduler: max_num_batched_tokens ({}) is smaller than max_num_seqs ({}): a step of only "
        "decodes would not fit; raise the first or lower the second",
        config.max_num_batched_tokens,
        config.max_num_seqs));
  }
  if (config.async_scheduling && config.decode_query_len > 1) {
    throw InvalidArgument(
        "scheduler: async_scheduling and draft tokens exclude each other, because drafts follow "
        "from the tokens of the step before; turn one of them off");
  }
  check_state_chunks(config);
  if (config.enable_chunked_prefill) return;
  if (config.max_num_batched_tokens < max_model_len) {
    throw InvalidArgument(fmt::format(
        "scheduler: enable_chunked_prefill is off and max_num_batched_tokens ({}) is smaller than "
        "max_model_len ({}): a long prompt could never run; raise the first, lower the second or "
        "enable chunked prefill",
        config.max_num_batched_tokens,
        max_model_len));
  }
  if (config.long_prefill_token_threshold > 0) {
    throw InvalidArgument(
        fmt::format("scheduler: long_prefill_token_threshold ({}) cuts prompts into chunks, but "
                    "enable_chunked_prefill is off; turn it on, or set the threshold to 0",
                    config.long_prefill_token_threshold));
  }
}

}  // namespace reprise::scheduler
