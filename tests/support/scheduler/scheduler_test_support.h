#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "reprise/kv_cache/kv_cache_manager.h"
#include "reprise/sampling/sampler.h"
#include "reprise/scheduler/request.h"
#include "reprise/scheduler/scheduler.h"

namespace reprise::scheduler::testing {

inline constexpr int kVocabSize = 1000;
inline constexpr int32_t kEos = 2;
/// A token that does not end a request.
inline constexpr int32_t kPlain = 7;

[[nodiscard]] inline SchedulerConfig small_config() {
  return {.max_num_seqs = 8,
          .max_num_batched_tokens = 32,
          .max_model_len = 200,
          .eos_token_ids = {kEos},
          .vocab_size = kVocabSize};
}

/// A scheduler with its cache and its requests.
struct Bench {
  explicit Bench(SchedulerConfig config = small_config(),
                 int num_blocks = 101,
                 kv_cache::PrefixCaching prefix_caching = kv_cache::PrefixCaching::off)
      : cache(num_blocks, kv_cache::kDefaultBlockSize, prefix_caching),
        scheduler(std::move(config), cache) {}

  Request& add(int num_prompt_tokens,
               sampling::SamplingParams params = {},
               RequestOptions options = {}) {
    requests.push_back(std::make_unique<Request>(
        RequestId{requests.size()},
        std::vector<int32_t>(static_cast<size_t>(num_prompt_tokens), kPlain),
        std::move(params),
        /*engine_seed=*/0,
        std::move(options)));
    scheduler.add_request(*requests.back());
    return *requests.back();
  }

  /// Gives `token` to every request that samples in the step.
  std::span<const RequestUpdate> update(const SchedulerOutput& output, int32_t token = kPlain) {
    return scheduler.update_from_output(std::vector<sampling::SampledToken>(
        static_cast<size_t>(output.num_sampling_requests), {.token_id = token}));
  }

  void step(int32_t token = kPlain) { update(scheduler.schedule(), token); }

  kv_cache::KvCacheManager cache;
  Scheduler scheduler;
  std::vector<std::unique_ptr<Request>> requests;
};

[[nodiscard]] inline std::vector<int> scheduled_tokens(const SchedulerOutput& output) {
  std::vector<int> result;
  for (const StepEntry& entry : output.scheduled) {
    result.push_back(entry.num_tokens());
  }
  return result;
}

[[nodiscard]] inline std::vector<uint64_t> scheduled_ids(const SchedulerOutput& output) {
  std::vector<uint64_t> result;
  for (const StepEntry& entry : output.scheduled) {
    result.push_back(static_cast<uint64_t>(entry.request->id()));
  }
  return result;
}

}  // namespace reprise::scheduler::testing
