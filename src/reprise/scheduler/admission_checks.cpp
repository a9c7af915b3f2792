#include "reprise/scheduler/admission_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "reprise/base/error.h"
#include "reprise/scheduler/allowed_tokens.h"

namespace reprise::scheduler {

int effective_max_model_len(const SchedulerConfig& config, const kv_cache::KvCacheManager& cache) {
  return static_cast<int>(std::min<int64_t>(config.max_model_len, cache.capacity_tokens() + 1));
}

AdmissionChecks::AdmissionChecks(const SchedulerConfig& config,
                                 const kv_cache::KvCacheManager& cache)
    : config_(&config), cache_(&cache), max_model_len_(effective_max_model_len(config, cache)) {}

void AdmissionChecks::check(std::span<const int32_t> prompt_token_ids,
                            const sampling::SamplingParams& params,
                            const RequestOptions& options) const {
  if (!config_->decoder_prompt.empty()) {
    const bool has_text = !options.encoder_token_ids.empty();
    check_encoder_text(has_text ? options.encoder_token_ids : prompt_token_ids, params);
    prompt_token_ids = config_->decoder_prompt;
  }
  const size_t num_prompt_tokens = prompt_token_ids.size();
  if (num_prompt_tokens == 0) {
    throw InvalidArgument("prompt is empty, expected at least one token");
  }
  if (std::cmp_greater(num_prompt_tokens, cache_->capacity_tokens())) {
    throw InvalidArgument(fmt::format(
        "prompt has {} tokens, but the KV cache holds {} ({} blocks of {}); shorten the prompt or "
        "give the cache more memory",
        num_prompt_tokens,
        cache_->capacity_tokens(),
        cache_->num_blocks() - 1,
        cache_->block_size()));
  }
  if (std::cmp_greater_equal(num_prompt_tokens, max_model_len_)) {
    throw InvalidArgument(fmt::format(
        "prompt has {} tokens, but max_model_len is {} for prompt and output together; shorten the "
        "prompt to at most {} tokens",
        num_prompt_tokens,
        max_model_len_,
        max_model_len_ - 1));
  }
  check_token_ids(prompt_token_ids);
  sampling::validate(params, config_->vocab_size, config_->max_logprobs);
  check_some_token_is_allowed(params, config_->eos_token_ids);
  if (options.priority != 0 && config_->policy != SchedulingPolicy::priority) {
    throw InvalidArgument(fmt::format(
        "priority is {}, but this engine serves first come, first served; start it with "
        "--scheduling-policy priority or leave the priority out",
        options.priority));
  }
  if (options.lora_id != 0 && config_->max_loras == 0) {
    throw InvalidArgument(
        "the request names an adapter, but this engine has none; start it with --enable-lora");
  }
  if (options.cache_salt.size() > kMaxCacheSaltBytes) {
    throw InvalidArgument(fmt::format("cache_salt has {} bytes, expected at most {}",
                                      options.cache_salt.size(),
                                      kMaxCacheSaltBytes));
  }
}

void AdmissionChecks::check_token_ids(std::span<const int32_t> token_ids) const {
  for (size_t i = 0; i < token_ids.size(); ++i) {
    if (token_ids[i] < 0 || token_ids[i] >= config_->vocab_size) {
      throw InvalidArgument(fmt::format("prompt token {} is {}, expected a token id in [0, {}]",
                                        i,
                                        token_ids[i],
                                        config_->vocab_size - 1));
    }
  }
}

/// Checks the text that the encoder reads: it needs blocks besides those of the answer.
void AdmissionChecks::check_encoder_text(std::span<const int32_t> text,
                                         const sampling::SamplingParams& params) const {
  if (text.empty()) throw InvalidArgument("prompt is empty, expected at least one token");
  if (std::cmp_greater(text.size(), config_->max_model_len)) {
    throw InvalidArgument(
        fmt::format("prompt has {} tokens, but the encoder of this model reads at most {}; shorten "
                    "the prompt",
                    text.size(),
                    config_->max_model_len));
  }
  check_token_ids(text);
  const auto num_decoder_tokens = static_cast<int>(config_->decoder_prompt.size());
  const int num_blocks =
      cache_->blocks_for(static_cast<int>(text.size())) + cache_->blocks_for(num_decoder_tokens);
  if (num_blocks > cache_->num_blocks() - 1) {
    throw InvalidArgument(fmt::format(
        "prompt has {} tokens: with the answer's first tokens it needs {} blocks of the KV cache, "
        "which has {} of {} tokens; shorten the prompt or give the cache more memory",
        text.size(),
        num_blocks,
        cache_->num_blocks() - 1,
        cache_->block_size()));
  }
  if (params.prompt_logprobs) {
    throw InvalidArgument(
        "prompt_logprobs: the encoder of this model predicts no tokens of the prompt; leave it "
        "out");
  }
}

}  // namespace reprise::scheduler
