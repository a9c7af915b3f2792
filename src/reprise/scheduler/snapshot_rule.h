#pragma once

#include <cstdint>

#include "reprise/kv_cache/kv_cache_manager.h"
#include "reprise/scheduler/request.h"

namespace reprise::scheduler {

struct StepEntry;

/// Decides where a step copies the states of recurrent layers (takes a snapshot), which cached
/// prefixes of such models need. Prompts are cut there. Without recurrent layers it decides
/// nothing. Borrows the manager.
class SnapshotRule {
 public:
  /// `interval`: see SchedulerConfig::prefix_cache_retention_interval. Prompts are cut only at
  /// multiples of `chunk_tokens`, and the interval is raised to one.
  SnapshotRule(kv_cache::KvCacheManager& cache, int interval, int chunk_tokens);

  /// How many of the next `num_tokens` tokens lie before the next snapshot of the request.
  [[nodiscard]] int limit(const Request& request, int num_tokens) const;
  /// Makes the step copy the states after its last token, or at a block end among its drafts, if a
  /// later request may begin there.
  void schedule(const Request& request, StepEntry& entry);
  /// Publishes the copies that the step made, after its blocks were published. `is_valid`: whether
  /// the step succeeded for this request.
  void settle(const StepEntry& entry, bool is_valid);

  [[nodiscard]] uint64_t num_saved() const noexcept { return num_saved_; }
  [[nodiscard]] uint64_t num_restored() const noexcept { return num_restored_; }

 private:
  /// The first position after `position` at which the prompt is cut for a snapshot.
  [[nodiscard]] int next(const Request& request, int position) const;
  [[nodiscard]] bool is_wanted(const Request& request, int position) const;

  kv_cache::KvCacheManager* cache_;
  int place_tokens_;  // snapshots of prompts lie at multiples of this number
  int interval_;
  uint64_t num_saved_ = 0;
  uint64_t num_restored_ = 0;
};

}  // namespace reprise::scheduler
