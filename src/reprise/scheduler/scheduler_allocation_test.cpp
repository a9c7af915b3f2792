// Counts heap allocations of a whole steady-state step; replaces operator new for this binary.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <vector>

#include "tests/support/scheduler/scheduler_test_support.h"

namespace {
std::atomic<int64_t> num_allocations{0};
}  // namespace

// Not inlined, because GCC's -Wmismatched-new-delete would see only one half of each pair.
[[gnu::noinline]] void* operator new(std::size_t size) {
  num_allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace reprise::scheduler {
namespace {

TEST(Scheduler, steps_without_heap_allocation_through_prefill_decode_preemption_and_finish) {
  SchedulerConfig config = testing::small_config();
  testing::Bench bench(config, /*num_blocks=*/12, kv_cache::PrefixCaching::on);
  for (int i = 0; i < 8; ++i) {
    bench.add(5 + 9 * i,
              {.temperature = i % 2 == 0 ? 0.0F : 1.0F,
               .top_p = 0.9F,
               .top_k = 50,
               .frequency_penalty = i % 3 == 0 ? 0.5F : 0.0F,
               .max_tokens = 10 + 5 * i,
               .min_tokens = 9});
  }
  sampling::Sampler sampler(testing::kVocabSize);
  std::vector<sampling::SampledToken> sampled(8);
  std::vector<float> logits(testing::kVocabSize, 0.0F);

  const int64_t before = num_allocations.load();
  int num_steps = 0;
  while (bench.scheduler.has_unfinished_requests()) {
    const SchedulerOutput& output = bench.scheduler.schedule();
    size_t row = 0;
    for (const StepEntry& entry : output.scheduled) {
      logits[static_cast<size_t>(++num_steps) % logits.size()] += 1.0F;
      if (entry.samples) sampler.sample(entry.sampling_input(logits), sampled[row++]);
    }
    bench.scheduler.update_from_output(std::span(sampled).first(row));
  }
  EXPECT_EQ(num_allocations.load() - before, 0);
  EXPECT_GT(bench.scheduler.num_preemptions(), 0);
  EXPECT_GT(bench.cache.num_published_blocks(), 0);
  for (const auto& request : bench.requests) EXPECT_TRUE(request->is_finished());
}

}  // namespace
}  // namespace reprise::scheduler
