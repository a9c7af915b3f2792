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
