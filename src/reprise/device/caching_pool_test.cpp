#include "reprise/device/caching_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "reprise/base/error.h"

namespace reprise::device {
namespace {

// Returns ranges of addresses that are never accessed, so they may be of any size.
class PretendedMemory final : public MemorySource {
 public:
  [[nodiscard]] BufferView acquire(size_t bytes) override {
    if (acquired_ + bytes > limit) throw OutOfMemory("pretended memory is full");
    acquired_ += bytes;
    const BufferView memory{reinterpret_cast<void*>(next_), bytes};
    // Leave a gap, so that segments never follow each other directly.
    next_ += (bytes + 4095) / 4096 * 4096 + 4096;
    segments.push_back(memory);
    return memory;
  }
  void give_back(BufferView memory) noexcept override { acquired_ -= memory.bytes; }
  [[nodiscard]] size_t acquired() const noexcept { return acquired_; }

  size_t limit = ~size_t{0};
  std::vector<BufferView> segments;

 private:
  uintptr_t next_ = 1 << 20;
  size_t acquired_ = 0;
};

uintptr_t address(const PoolBlock* block) { return reinterpret_cast<uintptr_t>(block->data); }

TEST(CachingPool, blocks_never_overlap_and_stay_inside_segments) {
  PretendedMemory memory;
  CachingPool pool(memory);
  std::mt19937_64 random(3);
  std::vector<PoolBlock*> live;
  std::map<uintptr_t, uintptr_t> taken;  // begin -> end
  size_t live_bytes = 0;
  size_t peak = 0;
  for (int i = 0; i < 20'000; ++i) {
    if (!live.empty() && (live.size() > 100 || random() % 2 == 0)) {
      std::swap(live[random() % live.size()], live.back());
      live_bytes -= live.back()->bytes;
      taken.erase(address(live.back()));
      pool.release(live.back());
      live.pop_back();
    } else {
      // All orders of magnitude up to 256 MiB.
      const size_t bytes = random() >> (36 + random() % 28);
      PoolBlock* block = pool.allocate(bytes);
      ASSERT_GE(block->bytes, bytes);
      ASSERT_LT(block->bytes, bytes + 512);
      ASSERT_EQ(address(block) % 256, 0u);
      const auto after = taken.lower_bound(address(block));
      if (after != taken.end()) {
        ASSERT_LE(address(block) + block->bytes, after->first);
      }
      if (after != taken.begin()) {
        ASSERT_LE(std::prev(after)->second, address(block));
      }
      taken[address(block)] = address(block) + block->bytes;
      ASSERT_TRUE(std::ranges::any_of(memory.segments, [&](const BufferView& segment) {
        const auto begin = reinterpret_cast<uintptr_t>(segment.data);
        return begin <= address(block) && address(block) + block->bytes <= begin + segment.bytes;
      }));
      live.push_back(block);
      live_bytes += block->bytes;
    }
    peak = std::max(peak, live_bytes);
    ASSERT_EQ(pool.live_bytes(), live_bytes);
    ASSERT_EQ(pool.peak_live_bytes(), peak);
    ASSERT_EQ(pool.reserved_bytes(), memory.acquired());
  }
  for (PoolBlock* block : live) pool.release(block);
  // All chunks are merged again: each segment is one free range.
  EXPECT_EQ(pool.free_ranges(), memory.segments);
}

TEST(CachingPool, takes_the_best_fit) {
  PretendedMemory memory;
  CachingPool pool(memory);
  PoolBlock* large = pool.allocate(8192);
  PoolBlock* fence = pool.allocate(256);
  PoolBlock* small = pool.allocate(2048);
  PoolBlock* other_fence = pool.allocate(256);
  const void* small_address = small->data;
  pool.release(large);
  pool.release(small);
  PoolBlock* block = pool.allocate(2000);
  EXPECT_EQ(block->data, small_address);
  for (PoolBlock* each : {fence, other_fence, block}) pool.release(each);
}

TEST(CachingPool, capturing_the_largest_first_makes_smaller_ones_free) {
  PretendedMemory memory;
  CachingPool pool(memory);
  // The sizes of intermediate values in a transformer layer.
  const auto forward = [&](size_t tokens) {
    for (int layer = 0; layer < 4; ++layer) {
      const PoolReference normed(pool.allocate(tokens * 1024));
      const PoolReference qkv(pool.allocate(tokens * 3072));
      const PoolReference attended(pool.allocate(tokens * 1024));
      const PoolReference gated(pool.allocate(tokens * 8192));
    }
  };
  forward(512);
  const size_t reserved = pool.reserved_bytes();
  for (const size_t tokens : {256, 128, 64, 33, 32, 31, 8, 4, 2, 1}) forward(tokens);
  EXPECT_EQ(pool.reserved_bytes(), reserved);
}

TEST(CachingPool, zero_bytes_still_have_an_address_of_their_own) {
  PretendedMemory memory;
  CachingPool pool(memory);
  const PoolReference a(pool.allocate(0));
  const PoolReference b(pool.allocate(0));
  EXPECT_NE(a.get()->data, nullptr);
  EXPECT_NE(a.get()->data, b.get()->data);
}

TEST(CachingPool, stays_whole_when_the_device_has_no_more) {
  PretendedMemory memory;
  CachingPool pool(memory);
  const PoolReference held(pool.allocate(1000));
  memory.limit = memory.acquired();
  EXPECT_THROW((void)pool.allocate(size_t{64} << 20), OutOfMemory);
  EXPECT_THROW((void)pool.allocate(~size_t{0}), OutOfMemory);
  const PoolReference more(pool.allocate(1000));
  EXPECT_EQ(pool.live_bytes(), 2048u);
  EXPECT_EQ(pool.reserved_bytes(), memory.acquired());
}

TEST(CachingPool, gives_all_segments_back_when_it_dies) {
  PretendedMemory memory;
  {
    CachingPool pool(memory);
    for (const size_t bytes : {size_t{1}, size_t{5} << 20, size_t{100} << 20}) {
      const PoolReference block(pool.allocate(bytes));
    }
    EXPECT_GT(memory.acquired(), size_t{100} << 20);
  }
  EXPECT_EQ(memory.acquired(), 0u);
}

// A range of addresses, which gets memory from its start on, in steps of 3 MiB.
class PretendedRange final : public MemorySource {
 public:
  [[nodiscard]] bool is_contiguous() const noexcept override { return true; }
  [[nodiscard]] BufferView acquire(size_t bytes) override {
    const size_t rounded = (bytes + kStep - 1) / kStep * kStep;
    acquired += rounded;
    ++num_segments;
    return {reinterpret_cast<void*>(std::exchange(next_, next_ + rounded)), rounded};
  }
  void give_back(BufferView memory) noexcept override { acquired -= memory.bytes; }

  static constexpr size_t kStep = size_t{3} << 20;
  size_t acquired = 0;
  size_t num_segments = 0;

 private:
  uintptr_t next_ = 1 << 20;
};

TEST(CachingPool, blocks_reach_over_segments_that_lie_one_after_the_other) {
  PretendedRange range;
  {
    CachingPool pool(range);
    PoolBlock* small = pool.allocate(size_t{1} << 20);
    EXPECT_EQ(pool.reserved_bytes(), PretendedRange::kStep) << "all that the source gave";
    // The large block starts in the free end of the first segment and extends into the second one.
    PoolBlock* large = pool.allocate(size_t{7} << 20);
    EXPECT_EQ(address(large), address(small) + small->bytes);
    EXPECT_EQ(pool.reserved_bytes(), 3 * PretendedRange::kStep);
    // The block at the end of the range is in use, so the next block comes after it.
    PoolBlock* rest = pool.allocate(size_t{1} << 20);
    EXPECT_EQ(pool.reserved_bytes(), 3 * PretendedRange::kStep);
    PoolBlock* behind = pool.allocate(size_t{2} << 20);
    EXPECT_EQ(address(behind), address(rest) + rest->bytes);
    for (PoolBlock* block : {small, large, rest, behind}) pool.release(block);
    ASSERT_EQ(pool.free_ranges().size(), 1U) << "one stretch, without holes";
    EXPECT_EQ(pool.free_ranges()[0].bytes, pool.reserved_bytes());
    const size_t num_segments = range.num_segments;
    pool.release(pool.allocate(pool.reserved_bytes()));
    EXPECT_EQ(range.num_segments, num_segments);
  }
  EXPECT_EQ(range.acquired, 0U);
}

TEST(PoolReference, releases_when_the_last_copy_goes) {
  PretendedMemory memory;
  CachingPool pool(memory);
  PoolReference first(pool.allocate(100));
  PoolReference copy = first;
  first = PoolReference();
  EXPECT_EQ(pool.live_bytes(), 256u);
  PoolReference moved = std::move(copy);
  EXPECT_EQ(pool.live_bytes(), 256u);
  moved = PoolReference();
  EXPECT_EQ(pool.live_bytes(), 0u);
}

TEST(CachingPoolDeathTest, dies_loudly_when_blocks_outlive_it) {
  PretendedMemory memory;
  EXPECT_DEATH(
      {
        CachingPool pool(memory);
        (void)pool.allocate(1);
      },
      "in use");
}

}  // namespace
}  // namespace reprise::device
