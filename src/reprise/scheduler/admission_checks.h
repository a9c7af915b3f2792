#pragma once

#include <cstdint>
#include <span>

#include "reprise/kv_cache/kv_cache_manager.h"
#include "reprise/sampling/sampling_params.h"
#include "reprise/scheduler/request_options.h"
#include "reprise/scheduler/scheduler_config.h"

namespace reprise::scheduler {

/// See Scheduler::max_model_len().
[[nodiscard]] int effective_max_model_len(const SchedulerConfig& config,
                                          const kv_cache::KvCacheManager& cache);

/// Checks whether a request can ever run. Reads only data that never changes, so any thread may
/// call it at any time. Borrows everything.
class AdmissionChecks {
 public:
  AdmissionChecks(const SchedulerConfig& config, const kv_cache::KvCacheManager& cache);

  /// See Scheduler::check_admissible(). \throws InvalidArgument
  void check(std::span<const int32_t> prompt_token_ids,
             const sampling::SamplingParams& params,
             const RequestOptions& options) const;

  [[nodiscard]] int max_model_len() const noexcept { return max_model_len_; }

 private:
  void check_token_ids(std::span<const int32_t> token_ids) const;
  void check_encoder_text(std::span<const int32_t> text,
                          const sampling::SamplingParams& params) const;

  const SchedulerConfig* config_;
  const kv_cache::KvCacheManager* cache_;
  int max_model_len_;
};

}  // namespace reprise::scheduler
