#pragma once

#include <span>

#include "reprise/kv_cache/kv_cache_manager.h"
#include "reprise/scheduler/scheduler_output.h"

namespace reprise::scheduler {

/// The value of SchedulerOutput::common_prefix_len for this batch. \pre the batch is not empty
[[nodiscard]] int find_common_prefix(std::span<const StepEntry> batch,
                                     const kv_cache::KvCacheManager& cache);

}  // namespace reprise::scheduler
