#pragma once

#include <cstdint>

#include "reprise/kv_cache/kv_cache_manager.h"
#include "reprise/scheduler/request.h"

namespace reprise::scheduler {

/// Decides which tokens of a request need not be computed, because the prefix cache or another
/// engine has them, and publishes the blocks that steps have filled. Counts the tokens that it
/// finds. Borrows the manager.
class PrefixRule {
 public:
  using CachedPrefix = kv_cache::KvCacheManager::CachedPrefix;

  /// `recomputes_last_block`: see SchedulerConfig::recomputes_last_cached_block.
  PrefixRule(kv_cache::KvCacheManager& cache, bool recomputes_last_block)
      : cache_(&cache), recomputes_last_block_(recomputes_last_block) {}

  /// Prepares a new request to look for prefixes and to publish its own.
  void begin(Request& request) const;
  [[nodiscard]] CachedPrefix find(const Request& request) const;
  /// The number of tokens whose keys and values came with the request.
  [[nodiscard]] static int num_tokens_to_import(const Request& request);
  /// Counts the tokens that were found for a request when it is admitted for the first time.
  void count(Request& request, int num_found_tokens);
  /// Publishes the blocks that a step has filled, so that later requests find them.
  void publish(Request& request, int num_computed_tokens);

  /// The number of prompt tokens that were looked up, and of those that were found.
  [[nodiscard]] uint64_t num_queried() const noexcept { return num_queried_; }
  [[nodiscard]] uint64_t num_hit() const noexcept { return num_hit_; }

 private:
  kv_cache::KvCacheManager* cache_;
  bool recomputes_last_block_;
  uint64_t num_queried_ = 0;
  uint64_t num_hit_ = 0;
};

}  // namespace reprise::scheduler
