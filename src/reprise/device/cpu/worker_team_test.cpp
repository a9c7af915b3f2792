#include "reprise/device/cpu/worker_team.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <limits>
#include <thread>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace reprise::device {
namespace {

class WorkerTeamTest : public testing::TestWithParam<int> {
 protected:
  WorkerTeam team_{{.num_workers = GetParam(), .spin_us = 0}};
};

INSTANTIATE_TEST_SUITE_P(Sizes, WorkerTeamTest, testing::Values(1, 2, 3, 4, 5, 8));

struct Shares {
  uint32_t num_blocks;
  std::vector<BlockRange> ranges;
};

TEST_P(WorkerTeamTest, shares_cover_every_grid_in_order_and_evenly) {
  const auto workers = static_cast<uint32_t>(GetParam());
  for (const uint32_t grid :
       {0u, 1u, 2u, 3u, 7u, 31u, 32u, 33u, 1000u, std::numeric_limits<uint32_t>::max()}) {
    Shares shares{grid, std::vector<BlockRange>(workers)};
    // Written by different workers, read after the join.
    team_.run(
        [](const void* context, WorkerTeam::Member& member) noexcept {
          auto& all = *static_cast<Shares*>(const_cast<void*>(context));
          all.ranges[static_cast<size_t>(member.index())] = member.share(all.num_blocks);
        },
        &shares);
    uint32_t next = 0;
    for (const BlockRange& range : shares.ranges) {
      EXPECT_EQ(range.begin, next);
      EXPECT_GE(range.end, range.begin);
      EXPECT_LE(range.end - range.begin, uint64_t{grid} / workers + 1);
      next = range.end;
    }
    EXPECT_EQ(next, grid);
    // Worker 0 is never idle: a task may rely on it to pass every barrier.
    EXPECT_EQ(shares.ranges[0].end == 0, grid == 0);
  }
}

struct BarrierProbe {
  static constexpr uint32_t kBarriers = 200;
  std::vector<uint32_t> progress;  // one slot per worker, plain: only barriers order the accesses
  std::atomic<int> violations{0};
};

TEST_P(WorkerTeamTest, nobody_passes_a_barrier_before_all_have_arrived) {
  BarrierProbe probe{.progress = std::vector<uint32_t>(static_cast<size_t>(GetParam()) * 64)};
  for (int run = 0; run < 20; ++run) {
    team_.run(
        [](const void* context, WorkerTeam::Member& member) noexcept {
          auto& shared = *static_cast<BarrierProbe*>(const_cast<void*>(context));
          const auto mine = static_cast<size_t>(member.index()) * 64;
          for (uint32_t i = 1; i <= BarrierProbe::kBarriers; i += 2) {
            shared.progress[mine] = i;
            member.arrive(i);
            member.wait(i);
            for (size_t other = 0; other < shared.progress.size(); other += 64) {
              if (shared.progress[other] != i) ++shared.violations;
            }
            member.arrive(i + 1);
            member.wait(i + 1);
          }
        },
        &probe,
        BarrierProbe::kBarriers);
  }
  EXPECT_EQ(probe.violations, 0);
}

TEST_P(WorkerTeamTest, wakes_up_after_it_has_slept) {
  for (int i = 0; i < 20; ++i) {
    std::atomic<int> ran{0};
    team_.run(
        [](const void* context, WorkerTeam::Member&) noexcept {
          ++*static_cast<std::atomic<int>*>(const_cast<void*>(context));
        },
        &ran);
    EXPECT_EQ(ran, GetParam());
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

TEST_P(WorkerTeamTest, a_waiting_caller_sleeps_through_a_long_task) {
  team_.run(
      [](const void*, WorkerTeam::Member& member) noexcept {
        if (member.index() != 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      },
      nullptr);
}

TEST_P(WorkerTeamTest, serves_several_calling_threads_in_turn) {
  std::atomic<int> inside{0};
  std::atomic<int> total{0};
  struct Context {
    std::atomic<int>* inside;
    std::atomic<int>* total;
    int workers;
  } context{&inside, &total, GetParam()};
  const auto hammer = [&] {
    for (int i = 0; i < 200; ++i) {
      team_.run(
          [](const void* raw, WorkerTeam::Member&) noexcept {
            const auto& shared = *static_cast<const Context*>(raw);
            ++*shared.inside;
            ++*shared.total;
            --*shared.inside;
          },
          &context);
    }
  };
  std::thread other(hammer);
  hammer();
  other.join();
  EXPECT_EQ(total, 400 * GetParam());
}

#if defined(__x86_64__)
TEST_P(WorkerTeamTest, tasks_see_the_default_floating_point_modes_on_every_worker) {
  constexpr uint32_t kFlushToZeroAndDenormalsAreZero = 0x8040;
  constexpr uint32_t kModes = ~0x3fu;
  const uint32_t before = _mm_getcsr();
  _mm_setcsr(before | kFlushToZeroAndDenormalsAreZero);
  std::atomic<int> wrong{0};
  const auto probe = [](const void* context, WorkerTeam::Member&) noexcept {
    if ((_mm_getcsr() & kModes) != 0x1f80) {
      ++*static_cast<std::atomic<int>*>(const_cast<void*>(context));
    }
  };
  team_.run(probe, &wrong);
  team_.run_inline(probe, &wrong);
  const uint32_t after = _mm_getcsr();
  _mm_setcsr(before);
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(after & kModes, (before | kFlushToZeroAndDenormalsAreZero) & kModes);
}
#endif

}  // namespace
}  // namespace reprise::device
