#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "reprise/sampling/sampler.h"
#include "reprise/scheduler/scheduling_policy.h"

namespace reprise::scheduler {

/// vLLM's names and defaults.
struct SchedulerConfig {
  int max_num_seqs = 128;             // requests per step
  int max_num_batched_tokens = 2048;  // tokens per step
  int max_model_len = 2048;           // prompt + output of one request
  bool enable_chunked_prefill = true;
  /// A step computes at most this many tokens of one prefill; 0 = no limit.
  int long_prefill_token_threshold = 0;
  /// A waiting request is admitted only when the free blocks can hold all its known tokens, not
  /// just the first chunk. This keeps half-computed prompts from preempting each other.
  bool scheduler_reserve_full_isl = true;
  /// A step computes at most this many rows of logits for log-probabilities of prompts, which
  /// bounds the memory of the step. Longer prompts that want log-probabilities are cut into chunks,
  /// even when chunked prefill is off. Requests that need no such rows overtake requests that wait
  /// for them.
  int max_prompt_logits = 128;
  /// Tokens of one request in a decode step: 1 + speculative tokens. The order of the batch depends
  /// on it. More than 1 needs a drafter.
  int decode_query_len = 1;
  /// The largest number of drafts of a request, by the number of running requests; [0] is unused.
  /// Empty: decode_query_len - 1 in every step.
  std::vector<int> drafts_by_batch_size;
  /// Further query lengths of uniform decode batches, ascending, between 1 (which always is a query
  /// length) and decode_query_len. A step with fewer drafts is padded to the smallest length that
  /// is enough.
  std::vector<int> fewer_draft_widths;
  /// Pads requests that have fewer drafts, so that the step becomes a uniform decode batch, unless
  /// that more than doubles the tokens of the step. Only useful if uniform decode batches have
  /// graphs that other batches do not have.
  bool pad_drafts = false;
  /// A draft head computes its cache entry for a position from the next token. So the entry at the
  /// end of a cached prefix may have been computed for another next token: the last cached block is
  /// computed again, as in vLLM.
  bool recomputes_last_cached_block = false;
  SchedulingPolicy policy = SchedulingPolicy::fcfs;
  /// Only for the policy `priority`: the bound that keeps a request from waiting for ever. A
  /// request that has waited this many steps in total, preemptions included, is promoted: it is
  /// served before all requests that are not promoted, and promoted requests are served first come,
  /// first served. The default is a minute or two at usual step times. vLLM has no such bound.
  int max_priority_wait_steps = 4096;
  /// The model makes a vector of each prompt: a request ends with its prompt, and gets the row of
  /// its last token as a vector instead of a token.
  bool is_pooling = false;
  /// The first tokens of each answer of an encoder-decoder model, whose prompts are texts of the
  /// encoder. Empty: the model has no encoder.
  std::vector<int32_t> decoder_prompt;
  /// A step may be scheduled while the previous step has no results yet.
  bool async_scheduling = false;
  /// The longest time that a step waits for the constraints of answers, whose work other threads
  /// do. If a quarter of the time of the step's forward is less, the step waits only for that, but
  /// always for an eighth of this time. Answers whose constraint takes longer get their token in a
  /// later step, so that they do not delay other requests. Usual constraints need 0.1 ms per token.
  std::chrono::nanoseconds constraint_time_per_step = std::chrono::milliseconds(2);
  /// The largest number of different LoRA adapters in one step; 0: the engine has none. A request
  /// whose adapter would be one too many waits, and later requests may overtake it for
  /// max_lora_wait_steps steps.
  int max_loras = 0;
  int max_lora_wait_steps = 1024;
  /// Steps with at least this many requests look for the prefix that all of them share; 0: no step
  /// does.
  int least_common_prefix_reqs = 0;
  /// Prompts are also cut, and states kept, at each multiple of this number of tokens; 0: only
  /// where a prompt ends and where prefixes branch. Only for models with recurrent layers.
  int prefix_cache_retention_interval = 0;
  /// A device computes states of recurrent layers in chunks of this many tokens. So prompts are cut
  /// only at its multiples, and a step must have room for a chunk besides the decodes. 1: prompts
  /// are cut anywhere.
  int state_chunk_tokens = 1;
  std::vector<int32_t> eos_token_ids;
  int vocab_size = 0;                         // >= 1; bounds prompt and sampled token ids
  int max_logprobs = sampling::kMaxLogprobs;  // the most that a request may ask
};

/// `max_model_len`: the effective limit, which the KV cache may lower. \throws InvalidArgument for
/// options that cannot work; the message says which and why
void check_config(const SchedulerConfig& config, int max_model_len);

}  // namespace reprise::scheduler
