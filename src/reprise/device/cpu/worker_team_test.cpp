#include "reprise/device/cpu/worker_team.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <limits>
#include <mutex>
#include <thread>
#include <utility>
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

TEST_P(WorkerTeamTest, shares_cover_every_grid_exactly_once_and_evenly) {
  const auto workers = static_cast<uint32_t>(GetParam());
  for (const uint32_t grid :
       {0u, 1u, 2u, 3u, 7u, 31u, 32u, 33u, 1000u, std::numeric_limits<uint32_t>::max()}) {
    struct Context {
      uint32_t grid;
      std::mutex mutex;
      std::vector<BlockRange> ranges;
    } context{grid, {}, {}};
    team_.run({.run_phase =
                   [](const void* raw, uint32_t, const WorkerTeam::Share& share) noexcept {
                     auto& all = *static_cast<Context*>(const_cast<void*>(raw));
                     const std::lock_guard lock(all.mutex);
                     all.ranges.push_back(share.of(all.grid));
                   },
               .context = &context});
    ASSERT_EQ(context.ranges.size(), workers);
    std::ranges::sort(context.ranges, {}, [](BlockRange r) { return std::pair(r.begin, r.end); });
    uint32_t next = 0;
    for (const BlockRange& range : context.ranges) {
      EXPECT_EQ(range.begin, next);
      EXPECT_LE(range.end - range.begin, uint64_t{grid} / workers + 1);
      next = range.end;
    }
    EXPECT_EQ(next, grid);
  }
}

// In each phase, every lane checks that all other lanes have finished the previous phase.
struct BarrierProbe {
  static constexpr uint32_t kPhases = 200;
  static constexpr uint32_t kLine = 64;

  explicit BarrierProbe(int workers) : finished(static_cast<size_t>(workers) * kLine) {}

  static void run_phase(const void* raw, uint32_t phase, const WorkerTeam::Share& share) noexcept {
    auto& self = *static_cast<BarrierProbe*>(const_cast<void*>(raw));
    const auto lanes = static_cast<uint32_t>(self.finished.size()) / kLine;
    const uint32_t lane = share.of(lanes).begin;
    if (self.is_serial(phase) && lane != 0) ++self.violations;  // only lane 0 runs a serial phase
    for (uint32_t other = 0; other < lanes; ++other) {
      const uint32_t found = self.finished[other * kLine];
      // Lanes other than 0 do not run serial phases, so they do not count them as finished.
      const bool skipped = other != 0 && phase != 0 && self.is_serial(phase - 1);
      if (other != lane && !skipped && found != phase && found != phase + 1) ++self.violations;
    }
    if (self.dawdle_every != 0 && (phase + lane) % self.dawdle_every == 0) {
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    self.finished[lane * kLine] = phase + 1;
  }

  [[nodiscard]] bool is_serial(uint32_t phase) const noexcept {
    return !serial.empty() && serial[phase] != 0;
  }

  std::vector<std::atomic<uint32_t>> finished;  // number of finished phases, per lane
  std::atomic<int> violations{0};
  std::vector<uint8_t> serial;
  uint32_t dawdle_every = 0;
};

void run_probe(WorkerTeam& team, BarrierProbe& probe) {
  for (auto& count : probe.finished) count = 0;
  team.run({.run_phase = BarrierProbe::run_phase,
            .context = &probe,
            .num_phases = BarrierProbe::kPhases,
            .phase_is_serial = probe.serial.empty() ? nullptr : probe.serial.data()});
  for (size_t lane = 0; lane < probe.finished.size(); lane += BarrierProbe::kLine) {
    EXPECT_EQ(probe.finished[lane], BarrierProbe::kPhases);
  }
}

TEST_P(WorkerTeamTest, no_phase_begins_before_the_last_one_has_ended) {
  BarrierProbe probe(GetParam());
  for (int run = 0; run < 30; ++run) run_probe(team_, probe);
  EXPECT_EQ(probe.violations, 0);
}

TEST_P(WorkerTeamTest, lanes_of_delayed_workers_are_run_once_and_in_order) {
  BarrierProbe probe(GetParam());
  for (const uint32_t every : {7u, 13u, 41u}) {
    probe.dawdle_every = every;
    run_probe(team_, probe);
  }
  EXPECT_EQ(probe.violations, 0);
}

TEST_P(WorkerTeamTest, serial_phases_concern_only_worker_0) {
  BarrierProbe probe(GetParam());
  probe.serial.resize(BarrierProbe::kPhases);
  for (uint32_t phase = 1; phase + 1 < BarrierProbe::kPhases; phase += 2) probe.serial[phase] = 1;
  if (GetParam() == 1) probe.serial.clear();
  for (int run = 0; run < 30; ++run) run_probe(team_, probe);
  EXPECT_EQ(probe.violations, 0);
}

void count_one(const void* raw, uint32_t, const WorkerTeam::Share&) noexcept {
  ++*static_cast<std::atomic<int>*>(const_cast<void*>(raw));
}

TEST_P(WorkerTeamTest, wakes_up_after_it_has_slept) {
  for (int i = 0; i < 20; ++i) {
    std::atomic<int> ran{0};
    team_.run({.run_phase = count_one, .context = &ran});
    EXPECT_EQ(ran, GetParam());
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

TEST_P(WorkerTeamTest, waits_for_a_lane_in_the_middle_of_long_work) {
  for (const int milliseconds : {0, 2}) {  // 0: waiting workers yield. 2: they sleep
    std::atomic<int> done{0};
    struct Context {
      std::atomic<int>* done;
      int milliseconds;
    } context{&done, milliseconds};
    team_.run({.run_phase =
                   [](const void* raw, uint32_t, const WorkerTeam::Share&) noexcept {
                     const auto& shared = *static_cast<const Context*>(raw);
                     std::this_thread::sleep_for(std::chrono::milliseconds(shared.milliseconds) +
                                                 std::chrono::microseconds(200));
                     ++*shared.done;
                   },
               .context = &context,
               .num_phases = 4});
    EXPECT_EQ(done, 4 * GetParam());
  }
}

TEST_P(WorkerTeamTest, serves_several_calling_threads_in_turn) {
  std::atomic<int> total{0};
  const auto hammer = [&] {
    for (int i = 0; i < 300; ++i) {
      team_.run({.run_phase = count_one, .context = &total, .num_phases = 3});
    }
  };
  std::thread other(hammer);
  hammer();
  other.join();
  EXPECT_EQ(total, 2 * 300 * 3 * GetParam());
}

#if defined(__x86_64__)
TEST_P(WorkerTeamTest, tasks_see_the_default_floating_point_modes_on_every_worker) {
  constexpr uint32_t kFlushToZeroAndDenormalsAreZero = 0x8040;
  constexpr uint32_t kModes = ~0x3fu;
  const uint32_t before = _mm_getcsr();
  _mm_setcsr(before | kFlushToZeroAndDenormalsAreZero);
  std::atomic<int> wrong{0};
  const WorkerTeam::Work probe{
      .run_phase =
          [](const void* raw, uint32_t, const WorkerTeam::Share&) noexcept {
            if ((_mm_getcsr() & kModes) != 0x1f80) {
              ++*static_cast<std::atomic<int>*>(const_cast<void*>(raw));
            }
          },
      .context = &wrong};
  for (int i = 0; i < 100; ++i) team_.run(probe);
  WorkerTeam::run_inline(probe);
  const uint32_t after = _mm_getcsr();
  _mm_setcsr(before);
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(after & kModes, (before | kFlushToZeroAndDenormalsAreZero) & kModes);
}
#endif

}  // namespace
}  // namespace reprise::device
