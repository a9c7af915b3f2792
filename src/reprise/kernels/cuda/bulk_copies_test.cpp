#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <functional>
#include <numeric>

#include "reprise/kernels/cuda/block.cuh"

// The host's bulk copies and their barriers behave as on a GPU at its worst: copies are late, and a
// kernel that breaks a rule stops with a message.
namespace reprise::kernels::cuda {
namespace {

constexpr int kWords = 64;
constexpr int kBytes = kWords * 4;

/// Runs one block of two warps in an order of threads. The barrier lies behind kBytes of shared
/// memory, and warp 0 has begun it for `arrivals`.
void run_block(uint64_t order, int arrivals, const std::function<void(PhaseBarrier&)>& kernel) {
  const HostOrder fixed(order);
  run_on_host({.num_blocks = 1,
               .first_block = 0,
               .last_block = 1,
               .threads_per_block = 64,
               .shared_bytes = kBytes + 8},
              [&] {
                auto& barrier = *reinterpret_cast<PhaseBarrier*>(shared_memory() + kBytes);
                if (thread_index() == 0) barrier.begin(arrivals);
                sync_block();
                kernel(barrier);
              });
}

class BulkCopies : public testing::Test {
 protected:
  BulkCopies() { std::iota(words_.begin(), words_.end(), 1); }
  void copy(int words, PhaseBarrier& barrier) const {
    copy_bulk(shared_memory(), words_.data(), words * 4, barrier);
  }
  /// The first word in shared memory.
  static uint32_t first_word() { return load_word(shared_memory()); }

  alignas(16) std::array<uint32_t, kWords> words_{};
};

TEST_F(BulkCopies, hold_nans_until_a_thread_waits_for_them) {
  std::array<uint32_t, 64> before{};
  std::array<uint32_t, 64> after{};
  run_block(0, 1, [&](PhaseBarrier& barrier) {
    const auto me = static_cast<size_t>(thread_index());
    if (warp_index() == 0) {
      barrier.arrive_as_warp(kBytes);
      copy(kWords, barrier);
    }
    sync_block();
    before[me] = first_word();
    sync_block();
    barrier.wait(0);
    after[me] = load_word(shared_memory() + me * 4);
  });
  for (size_t i = 0; i < 64; ++i) {
    EXPECT_EQ(before[i], 0xFFFFFFFFU);
    EXPECT_EQ(after[i], i + 1);
  }
}

TEST_F(BulkCopies, have_phases_whose_parities_alternate) {
  for (uint64_t order = 0; order < 20; ++order) {
    uint32_t sum = 0;
    run_block(order, 1, [&](PhaseBarrier& barrier) {
      barrier.wait(1);  // the phase before the first one has ended
      sync_block();
      for (int round = 0; round < 5; ++round) {
        if (warp_index() == 0) {
          barrier.arrive_as_warp(16);
          copy_bulk(shared_memory(), words_.data() + round * 4, 16, barrier);
        }
        barrier.wait(round % 2);
        if (thread_index() == 63) sum += first_word();
        sync_block();
      }
    });
    EXPECT_EQ(sum, 1U + 5 + 9 + 13 + 17);
  }
}

TEST_F(BulkCopies, that_break_a_rule_stop_the_test_with_a_message) {
  const auto dies = [&](const char* message, int arrivals, const auto& kernel) {
    EXPECT_DEATH(run_block(0, arrivals, kernel), message);
  };
  dies("wait for ever; barrier at 256: phase 0, 1 of 1 arrivals, 16 bytes missing",
       1,
       [&](PhaseBarrier& barrier) {  // too many expected bytes
         if (warp_index() == 0) {
           barrier.arrive_as_warp(32);
           copy(4, barrier);
         }
         barrier.wait(0);
       });
  dies("ends without 1 of its copies: it expected too few bytes", 1, [&](PhaseBarrier& barrier) {
    if (warp_index() == 0) {
      barrier.arrive_as_warp(16);
      copy_bulk(shared_memory(), words_.data(), 16, barrier);
      copy_bulk(shared_memory() + 16, words_.data(), 16, barrier);
    }
    barrier.wait(0);
  });
  dies("wait for ever; barrier at 256: phase 0, 1 of 2 arrivals, 0 bytes missing",
       2,
       [&](PhaseBarrier& barrier) {
         if (thread_index() == 0) barrier.arrive();
         barrier.wait(0);
       });
  dies("more than 1 arrivals", 1, [&](PhaseBarrier& barrier) {
    if (warp_index() == 0) barrier.arrive_as_warp(16);
    sync_block();
    if (thread_index() == 0) barrier.arrive();
  });
  dies("wait for ever", 1, [&](PhaseBarrier& barrier) {
    if (warp_index() == 0) {
      barrier.arrive_as_warp(16);
      copy(4, barrier);
    }
    barrier.wait(0);
    barrier.wait(1);  // of a phase that does not end
  });
  dies("ends before its bulk copies are there", 1, [&](PhaseBarrier& barrier) {
    if (warp_index() == 0) {
      barrier.arrive_as_warp(16);
      copy(4, barrier);
    }
  });
  dies("two bulk copies to the same bytes", 1, [&](PhaseBarrier& barrier) {
    if (warp_index() != 0) return;
    barrier.arrive_as_warp(32);
    copy(4, barrier);
    copy(4, barrier);
  });
  dies("multiples of 16", 1, [&](PhaseBarrier& barrier) {
    if (warp_index() == 0) copy(3, barrier);
  });
  dies("no barrier begins at 0", 1, [&](PhaseBarrier&) {
    reinterpret_cast<PhaseBarrier*>(shared_memory())->wait(0);
  });
  dies("start different copies", 1, [&](PhaseBarrier& barrier) {
    if (warp_index() == 0) barrier.arrive_as_warp(16 * (1 + lane_index()));
  });
}

TEST_F(BulkCopies, barriers_of_the_first_threads_do_not_wait_for_the_others) {
  int passed = 0;
  run_block(3, 1, [&](PhaseBarrier&) {
    if (warp_index() == 1) return;
    sync_first_threads<32>();
    ++passed;
  });
  EXPECT_EQ(passed, 32);
  EXPECT_DEATH(run_block(0, 1, [](PhaseBarrier&) { sync_first_threads<32>(); }), "first 32");
}

}  // namespace
}  // namespace reprise::kernels::cuda
