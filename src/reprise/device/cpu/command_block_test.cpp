#include "reprise/device/cpu/command_block.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <random>
#include <span>
#include <thread>
#include <utility>
#include <vector>

namespace reprise::device {
namespace {

void do_nothing(const void*, BlockRange) noexcept {}
constexpr Kernel kNothing{.name = "nothing", .cpu = do_nothing};

struct Step {
  uint32_t num_blocks;
  std::vector<BufferUse> uses;
};

// Addresses are only compared and never accessed, so they may be any numbers.
BufferUse use(uintptr_t begin, size_t bytes, BufferUse::Access access) {
  return {reinterpret_cast<const void*>(begin), bytes, access};
}
BufferUse read(uintptr_t begin, size_t bytes = 16) {
  return use(begin, bytes, BufferUse::Access::read);
}
BufferUse write(uintptr_t begin, size_t bytes = 16) {
  return use(begin, bytes, BufferUse::Access::write);
}

// The number of barriers before each step.
std::vector<uint32_t> barriers_of(const std::vector<Step>& steps) {
  CommandRecorder recorder;
  for (const Step& step : steps) {
    recorder.record({.kernel = &kNothing, .num_blocks = step.num_blocks, .uses = step.uses});
  }
  const CommandBlock block = std::move(recorder).finish();
  std::vector<uint32_t> barriers;
  block.for_each([&](const Command& command) { barriers.push_back(command.phase); });
  return barriers;
}

using Barriers = std::vector<uint32_t>;

TEST(CommandRecorder, orders_every_kind_of_conflict) {
  EXPECT_EQ(barriers_of({{2, {write(0)}}, {2, {read(0)}}}), (Barriers{0, 1}));
  EXPECT_EQ(barriers_of({{2, {read(0)}}, {2, {write(0)}}}), (Barriers{0, 1}));
  EXPECT_EQ(barriers_of({{2, {write(0)}}, {2, {write(0)}}}), (Barriers{0, 1}));
  EXPECT_EQ(barriers_of({{2, {use(0, 16, BufferUse::Access::read_write)}}, {2, {read(0)}}}),
            (Barriers{0, 1}));
}

TEST(CommandRecorder, leaves_independent_launches_together) {
  EXPECT_EQ(barriers_of({{2, {read(0)}}, {2, {read(0)}}}), (Barriers{0, 0}));
  EXPECT_EQ(barriers_of({{2, {write(0)}}, {2, {write(16)}}}), (Barriers{0, 0}));
  EXPECT_EQ(barriers_of({{2, {write(0, 0)}}, {2, {write(0)}}}), (Barriers{0, 0}));
  EXPECT_EQ(barriers_of({{2, {}}, {2, {write(0)}}}), (Barriers{0, 0}));
}

TEST(CommandRecorder, sees_partial_overlap) {
  EXPECT_EQ(barriers_of({{2, {write(0, 17)}}, {2, {read(16, 100)}}}), (Barriers{0, 1}));
  EXPECT_EQ(barriers_of({{2, {write(10, 1)}}, {2, {read(0, 100)}}}), (Barriers{0, 1}));
  EXPECT_EQ(barriers_of({{2, {write(0, 100)}}, {2, {read(10, 1)}}}), (Barriers{0, 1}));
}

TEST(CommandRecorder, chains_launches_of_one_block_without_barriers) {
  EXPECT_EQ(barriers_of({{1, {write(0)}}, {1, {read(0), write(16)}}, {1, {read(16), write(0)}}}),
            (Barriers{0, 0, 0}));
}

TEST(CommandRecorder, puts_barriers_where_serial_and_parallel_launches_meet) {
  EXPECT_EQ(barriers_of({{1, {write(0)}},
                         {2, {read(0), write(16)}},
                         {1, {read(16), write(32)}},
                         {1, {read(32)}},
                         {2, {read(32)}}}),
            (Barriers{0, 1, 2, 2, 3}));
  // A serial launch between parallel launches that use other memory.
  EXPECT_EQ(barriers_of({{2, {write(0)}}, {1, {write(16)}}, {2, {write(32)}}}),
            (Barriers{0, 0, 0}));
}

TEST(CommandRecorder, remembers_launches_from_before_a_barrier_only_as_long_as_needed) {
  // The second pair needs no further barrier, because the barrier of the first pair is between its
  // commands too.
  EXPECT_EQ(barriers_of({{2, {write(0)}}, {2, {write(16)}}, {2, {read(0)}}, {2, {read(16)}}}),
            (Barriers{0, 0, 1, 1}));
}

TEST(CommandRecorder, drops_launches_of_no_blocks) {
  EXPECT_EQ(barriers_of({{2, {write(0)}}, {0, {write(0)}}, {2, {read(32)}}}), (Barriers{0, 0}));
}

bool conflict(const Step& a, const Step& b) {
  for (const BufferUse& x : a.uses) {
    for (const BufferUse& y : b.uses) {
      const auto bx = reinterpret_cast<uintptr_t>(x.data);
      const auto by = reinterpret_cast<uintptr_t>(y.data);
      for (uintptr_t byte = bx; byte < bx + x.bytes; ++byte) {
        if (byte >= by && byte < by + y.bytes && (x.writes() || y.writes())) return true;
      }
    }
  }
  return false;
}

// Whether two steps need a barrier between them.
bool must_be_separated(const Step& a, const Step& b) {
  return !(a.num_blocks == 1 && b.num_blocks == 1) && conflict(a, b);
}

// The smallest number of barriers that separate all pairs that need it. groups[i] is the smallest
// number of groups of neighbouring steps for the first i steps; there is a barrier between two
// groups.
uint32_t fewest_barriers(const std::vector<Step>& steps) {
  const size_t n = steps.size();
  // Whether steps [begin, end) need no barrier between any two of them.
  const auto together = [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      for (size_t j = i + 1; j < end; ++j) {
        if (must_be_separated(steps[i], steps[j])) return false;
      }
    }
    return true;
  };
  std::vector<uint32_t> groups(n + 1, ~0u);
  groups[0] = 0;
  for (size_t end = 1; end <= n; ++end) {
    for (size_t begin = 0; begin < end; ++begin) {
      if (groups[begin] != ~0u && together(begin, end)) {
        groups[end] = std::min(groups[end], groups[begin] + 1);
      }
    }
  }
  return groups[n] - 1;
}

TEST(CommandRecorder, separates_all_conflicts_with_the_fewest_barriers) {
  for (uint32_t seed = 0; seed < 500; ++seed) {
    std::mt19937 random(seed);
    std::vector<Step> steps(1 + random() % 12);
    for (Step& step : steps) {
      step.num_blocks = random() % 2 == 0 ? 1 : 8;
      const size_t num_uses = random() % 4;
      for (size_t i = 0; i < num_uses; ++i) {
        const auto access = static_cast<BufferUse::Access>(random() % 3);
        step.uses.push_back(use(random() % 40, random() % 8, access));
      }
    }
    const Barriers barriers = barriers_of(steps);
    for (size_t i = 0; i < steps.size(); ++i) {
      for (size_t j = i + 1; j < steps.size(); ++j) {
        if (!must_be_separated(steps[i], steps[j])) continue;
        ASSERT_LT(barriers[i], barriers[j]) << seed;
      }
    }
    ASSERT_EQ(barriers.back(), fewest_barriers(steps)) << seed;
  }
}

TEST(CommandBlock, keeps_small_launches_in_one_cache_line) {
  CommandRecorder recorder;
  const std::array<std::byte, 32> small{};
  const std::array<std::byte, 33> larger{};
  recorder.record({.kernel = &kNothing, .num_blocks = 1, .args = small});
  recorder.record({.kernel = &kNothing, .num_blocks = 1, .args = larger});
  const CommandBlock block = std::move(recorder).finish();
  EXPECT_EQ(block.bytes(), 64u + 128u + 4u + 1u);  // the last byte is that of the single phase
  block.for_each([](const Command& command) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(&command) % 64, 0u);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(command.args()) % 16, 0u);
  });
}

struct alignas(16) PauseArguments {
  int32_t milliseconds = 0;
  std::atomic<int32_t>* runs = nullptr;  // by block
};
void pause(const void* args, BlockRange blocks) noexcept {
  const auto& pause_of = *static_cast<const PauseArguments*>(args);
  std::this_thread::sleep_for(std::chrono::milliseconds(pause_of.milliseconds));
  for (uint32_t block = blocks.begin; block < blocks.end; ++block) ++pause_of.runs[block];
}
constexpr Kernel kPause{.name = "pause", .cpu = pause};

TEST(CommandBlock, a_timed_run_gives_each_command_its_own_time) {
  constexpr auto kMillisecond = std::chrono::milliseconds(1);
  WorkerTeam team({.num_workers = 2, .cores = {}});
  std::array<std::atomic<int32_t>, 2> runs{};
  CommandRecorder recorder;
  // The second command of one block needs no barrier; all others wait for the one before.
  const std::vector<std::pair<uint32_t, int32_t>> blocks_and_pauses = {
      {2, 1}, {2, 20}, {1, 1}, {1, 10}, {2, 1}};
  for (const auto& [num_blocks, milliseconds] : blocks_and_pauses) {
    const PauseArguments arguments{.milliseconds = milliseconds, .runs = runs.data()};
    const std::array uses{write(0)};
    recorder.record({.kernel = &kPause,
                     .num_blocks = num_blocks,
                     .args = std::as_bytes(std::span(&arguments, 1)),
                     .uses = uses});
  }
  const CommandBlock block = std::move(recorder).finish();
  std::vector<CommandBlock::TimePoint> ends(block.num_commands());
  CommandBlock::TimePoint before = std::chrono::steady_clock::now();
  block.run_timed(team, ends);
  for (size_t i = 0; i < ends.size(); ++i) {
    EXPECT_GE(ends[i] - before, blocks_and_pauses[i].second * kMillisecond) << i;
    before = ends[i];
  }
  EXPECT_EQ(runs[0], 5);
  EXPECT_EQ(runs[1], 3);
  block.only(3).run(team);
  EXPECT_EQ(runs[0], 6);
  EXPECT_EQ(runs[1], 3);
  block.only(1).run(team);
  EXPECT_EQ(runs[0], 7);
  EXPECT_EQ(runs[1], 4);
}

}  // namespace
}  // namespace reprise::device
