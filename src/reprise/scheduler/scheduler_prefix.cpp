// The members of Scheduler that find what is computed already of a request.
#include <algorithm>

#include "reprise/scheduler/scheduler.h"

namespace reprise::engine {

int Scheduler::num_tokens_to_import(const Request& request) {
  if (request.options_.kv_image == nullptr || wants_prompt_logits(request)) return 0;
  return std::min(request.options_.kv_image_tokens, request.num_tokens() - 1);
}

kv_cache::KvCacheManager::CachedPrefix Scheduler::find_prefix(const Request& request) const {
  // The last token is always computed, because its logits sample the next token. A request that
  // wants log-probabilities of its prompt is computed from the first position whose logits are not
  // scheduled yet.
  const int max_tokens = wants_prompt_logits(request) ? request.num_prompt_logits_scheduled_
                                                      : request.num_tokens() - 1;
  const auto prefix = kv_cache_manager_->find_prefix(request.block_hashes_,
                                                     max_tokens / kv_cache_manager_->block_size());
  if (!config_.recomputes_last_cached_block || prefix.num_blocks == 0) return prefix;
  return kv_cache_manager_->find_prefix(request.block_hashes_, prefix.num_blocks - 1);
}

void Scheduler::count_prefix_lookup(Request& request, int num_found_tokens) {
  request.num_cached_tokens_ = request.num_computed_tokens_;
  request.num_imported_tokens_ = request.num_cached_tokens_ - num_found_tokens;
  if (kv_cache_manager_->prefix_caching() == kv_cache::PrefixCaching::off ||
      wants_prompt_logits(request)) {
    return;
  }
  prefix_cache_stats_.queries += static_cast<uint64_t>(request.num_prompt_tokens_);
  prefix_cache_stats_.hits += static_cast<uint64_t>(num_found_tokens);
}

}  // namespace reprise::engine
