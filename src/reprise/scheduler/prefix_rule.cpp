#include "reprise/scheduler/prefix_rule.h"

#include <algorithm>

#include "reprise/scheduler/prompt_logits_budget.h"

namespace reprise::scheduler {

void PrefixRule::begin(Request& request) const {
  kv_cache::BlockHashChain& hashes = request.state().cache.block_hashes;
  if (request.options().shares_prefixes) {
    kv_cache::PrefixKey prefix{.cache_salt = request.cache_salt()};
    if (request.lora_id() != 0) prefix.lora_id = request.lora_id();
    hashes = cache_->make_chain(prefix);
  }
  hashes.reserve(request.max_total_tokens());
  hashes.extend(request.token_ids());
}

int PrefixRule::num_tokens_to_import(const Request& request) {
  if (request.kv_image() == nullptr || PromptLogitsBudget::wants_rows(request)) return 0;
  return std::min(request.options().kv_image_tokens, request.num_tokens() - 1);
}

PrefixRule::CachedPrefix PrefixRule::find(const Request& request) const {
  // The last token is always computed, because its logits sample the next token. A request that
  // wants log-probabilities of its prompt is computed from the first position whose logits are not
  // scheduled yet.
  const int max_tokens = PromptLogitsBudget::wants_rows(request)
                             ? request.state().num_prompt_logits_scheduled
                             : request.num_tokens() - 1;
  const kv_cache::BlockHashChain& hashes = request.state().cache.block_hashes;
  const auto prefix = cache_->find_prefix(hashes, max_tokens / cache_->block_size());
  // The states of recurrent layers cannot go back a block. So for such models the last block is not
  // recomputed, and a draft head keeps the last entry of the prefix as the request that computed it
  // left it. This only changes drafts.
  if (!recomputes_last_block_ || prefix.num_blocks == 0 || cache_->has_snapshots()) return prefix;
  return cache_->find_prefix(hashes, prefix.num_blocks - 1);
}

void PrefixRule::count(Request& request, int num_found_tokens) {
  CacheState& cached = request.state().cache;
  cached.num_cached_tokens = request.num_computed_tokens();
  cached.num_imported_tokens = cached.num_cached_tokens - num_found_tokens;
  if (cache_->prefix_caching() == kv_cache::PrefixCaching::off ||
      PromptLogitsBudget::wants_rows(request)) {
    return;
  }
  num_queried_ += static_cast<uint64_t>(request.num_prompt_tokens());
  num_hit_ += static_cast<uint64_t>(num_found_tokens);
}

void PrefixRule::publish(Request& request, int num_computed_tokens) {
  if (!request.options().shares_prefixes) return;
  CacheState& cached = request.state().cache;
  cached.block_hashes.extend(request.token_ids().first(static_cast<size_t>(num_computed_tokens)));
  kv_cache::BlockSource source{.token_ids = request.token_ids(),
                               .cache_salt = request.cache_salt(),
                               .lora_name = request.options().lora_name};
  if (request.lora_id() != 0) source.lora_id = request.lora_id();
  cache_->publish(cached.block_table, cached.block_hashes, num_computed_tokens, source);
}

}  // namespace reprise::scheduler
