#include "reprise/kv_cache/state_snapshots.h"

#include <gtest/gtest.h>

#include <array>

#include "reprise/kv_cache/kv_cache_manager.h"

namespace reprise::kv_cache {
namespace {

BlockHash hash_of(int number) {
  BlockHash hash{};
  hash[0] = static_cast<std::byte>(number);
  return hash;
}

TEST(StateSnapshots, lie_behind_the_slots_of_requests_and_are_found_once_published) {
  StateSnapshots snapshots(5, 2);
  const StateSlot first = snapshots.begin();
  EXPECT_EQ(first, StateSlot{5});
  EXPECT_FALSE(snapshots.find(hash_of(1)).has_value());
  snapshots.publish(first, hash_of(1));
  EXPECT_EQ(snapshots.find(hash_of(1)), first);
  EXPECT_EQ(snapshots.begin(), StateSlot{6});
  EXPECT_EQ(snapshots.find_broken_invariant(), "");
}

TEST(StateSnapshots, of_least_recent_use_make_room_first) {
  StateSnapshots snapshots(1, 2);
  for (const int number : {1, 2}) snapshots.publish(snapshots.begin(), hash_of(number));
  snapshots.touch(hash_of(1));
  snapshots.publish(snapshots.begin(), hash_of(3));
  EXPECT_TRUE(snapshots.find(hash_of(1)).has_value());
  EXPECT_FALSE(snapshots.find(hash_of(2)).has_value());
  EXPECT_TRUE(snapshots.find(hash_of(3)).has_value());
}

TEST(StateSnapshots, that_are_being_written_are_given_to_nobody_else) {
  StateSnapshots snapshots(1, 1);
  const StateSlot slot = snapshots.begin();
  EXPECT_EQ(snapshots.begin(), kNullStateSlot);
  snapshots.drop(slot);
  EXPECT_EQ(snapshots.begin(), slot);
}

TEST(StateSnapshots, that_are_forgotten_are_reused_before_any_other) {
  StateSnapshots snapshots(1, 3);
  for (const int number : {1, 2, 3}) snapshots.publish(snapshots.begin(), hash_of(number));
  const StateSlot second = *snapshots.find(hash_of(2));
  snapshots.forget(hash_of(2));
  EXPECT_EQ(snapshots.begin(), second);
  EXPECT_EQ(snapshots.num_published(), 2);
  EXPECT_EQ(snapshots.find_broken_invariant(), "");
}

TEST(StateSnapshots, of_one_prefix_exist_once) {
  StateSnapshots snapshots(1, 2);
  const StateSlot a = snapshots.begin();
  const StateSlot b = snapshots.begin();
  snapshots.publish(a, hash_of(1));
  snapshots.publish(b, hash_of(1));
  EXPECT_EQ(snapshots.find(hash_of(1)), a);
  EXPECT_EQ(snapshots.num_published(), 1);
  EXPECT_EQ(snapshots.num_begun(), 0);
}

/// A request of four blocks of 4 tokens whose blocks are cached.
class CachedStates : public ::testing::Test {
 protected:
  CachedStates() {
    chain_ = cache_.make_chain({});
    chain_.extend(tokens_);
    EXPECT_EQ(cache_.allocate_slots(table_, 16), SlotResult::allocated);
    cache_.publish(table_, chain_, 16);
  }
  void save(int num_blocks) {
    cache_.publish_snapshot(cache_.begin_snapshot(),
                            chain_.hashes()[static_cast<size_t>(num_blocks) - 1]);
  }

  std::array<int32_t, 16> tokens_ = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
  KvCacheManager cache_{8, 4, PrefixCaching::on, 2, 3};
  BlockHashChain chain_;
  BlockTable table_;
};

TEST_F(CachedStates, end_the_prefix_that_a_request_can_use) {
  EXPECT_EQ(cache_.find_prefix(chain_, 4).num_blocks, 0);
  EXPECT_EQ(cache_.find_prefix(chain_, 4).num_blocks_without_states, 4);
  save(1);
  save(3);
  const KvCacheManager::CachedPrefix prefix = cache_.find_prefix(chain_, 4);
  EXPECT_EQ(prefix.num_blocks, 3);
  EXPECT_EQ(prefix.num_blocks_without_states, 4);
  EXPECT_EQ(prefix.snapshot, StateSlot{4}) << "the second slot behind those of two requests";
  EXPECT_EQ(cache_.find_prefix(chain_, 2).num_blocks, 1);
}

TEST_F(CachedStates, give_a_request_the_blocks_up_to_the_snapshot_and_a_slot) {
  save(2);
  BlockTable other;
  const KvCacheManager::CachedPrefix prefix = cache_.find_prefix(chain_, 3);
  ASSERT_EQ(cache_.allocate_slots_after(other, chain_, prefix, 12), SlotResult::allocated);
  EXPECT_EQ(other.block_ids()[1], table_.block_ids()[1]);
  EXPECT_NE(other.block_ids()[2], table_.block_ids()[2]);
  EXPECT_NE(other.state_slot(), kNullStateSlot);
  BlockTable third;  // no slot is left for it
  EXPECT_EQ(cache_.allocate_slots_after(third, chain_, prefix, 12), SlotResult::no_blocks);
  EXPECT_TRUE(third.empty());
  const std::array<const BlockTable*, 2> tables = {&table_, &other};
  EXPECT_EQ(cache_.find_broken_invariant(tables), "");
}

TEST_F(CachedStates, are_forgotten_with_their_block) {
  save(2);
  save(4);
  cache_.free(table_);
  BlockTable other;
  // The other request needs five blocks, so the last two blocks of the prefix must make room.
  ASSERT_EQ(cache_.allocate_slots(other, 20), SlotResult::allocated);
  EXPECT_EQ(cache_.num_published_snapshots(), 1);
  EXPECT_EQ(cache_.find_prefix(chain_, 4).num_blocks, 2);
}

TEST_F(CachedStates, are_forgotten_with_all_prefixes) {
  save(2);
  cache_.free(table_);
  EXPECT_TRUE(cache_.reset_prefix_cache());
  EXPECT_EQ(cache_.num_published_snapshots(), 0);
}

TEST_F(CachedStates, of_a_request_that_failed_are_forgotten_even_if_others_have_its_blocks) {
  BlockTable twin;
  ASSERT_EQ(cache_.allocate_slots(twin, 8), SlotResult::allocated);
  cache_.publish(twin, chain_, 8);  // the blocks of the first request keep their hashes
  save(2);
  cache_.unpublish(twin, chain_);
  EXPECT_EQ(cache_.find_prefix(chain_, 4).num_blocks, 0);
}

TEST_F(CachedStates, are_dropped_when_their_block_is_not_cached) {
  cache_.unpublish(table_, chain_);
  save(2);
  EXPECT_EQ(cache_.num_published_snapshots(), 0);
  EXPECT_EQ(cache_.num_begun_snapshots(), 0);
}

}  // namespace
}  // namespace reprise::kv_cache
