#include <gtest/gtest.h>

#include <array>
#include <set>

#include "reprise/kv_cache/kv_cache_manager.h"

namespace reprise::kv_cache {
namespace {

TEST(StateSlotPool, hands_out_every_slot_but_the_null_slot_once) {
  StateSlotPool pool(3);
  std::set<StateSlot> slots;
  for (int i = 0; i < 3; ++i) slots.insert(pool.allocate().value());
  EXPECT_EQ(slots, (std::set{StateSlot{1}, StateSlot{2}, StateSlot{3}}));
  EXPECT_FALSE(pool.allocate().has_value());
  pool.release(StateSlot{2});
  EXPECT_EQ(pool.num_free(), 1);
  EXPECT_EQ(pool.allocate(), StateSlot{2});
}

TEST(StateSlots, belong_to_a_request_from_its_first_slots_until_it_is_freed) {
  KvCacheManager cache(10, 4, PrefixCaching::off, 2);
  BlockTable a;
  BlockTable b;
  const std::array<const BlockTable*, 2> tables = {&a, &b};
  EXPECT_EQ(a.state_slot(), kNullStateSlot);
  ASSERT_EQ(cache.allocate_slots(a, 5), SlotResult::allocated);
  const StateSlot slot = a.state_slot();
  EXPECT_NE(slot, kNullStateSlot);
  ASSERT_EQ(cache.allocate_slots(a, 9), SlotResult::allocated);
  EXPECT_EQ(a.state_slot(), slot) << "a request that grows keeps its states";
  ASSERT_EQ(cache.allocate_slots(b, 1), SlotResult::allocated);
  EXPECT_NE(b.state_slot(), slot);
  EXPECT_EQ(cache.find_broken_invariant(tables), "");
  cache.free(a);
  EXPECT_EQ(a.state_slot(), kNullStateSlot);
  EXPECT_EQ(cache.num_free_state_reqs(), 1);
  EXPECT_EQ(cache.find_broken_invariant(tables), "");
}

TEST(StateSlots, lie_in_circles_of_one_more_than_there_are_drafts) {
  EXPECT_EQ(state_slot_behind(StateSlot{4}, 0, 3), StateSlot{4});
  EXPECT_EQ(state_slot_behind(StateSlot{4}, 2, 3), StateSlot{6});
  EXPECT_EQ(state_slot_behind(StateSlot{6}, 1, 3), StateSlot{4});
  EXPECT_EQ(state_slot_behind(StateSlot{5}, 2, 3), StateSlot{4});
  EXPECT_EQ(state_slot_behind(StateSlot{9}, 5, 1), StateSlot{9});
}

TEST(StateSlots, of_a_request_stay_its_own_while_its_states_move_in_the_circle) {
  KvCacheManager cache(10, 4, PrefixCaching::on, 2, /*num_snapshots=*/1, /*slots_per_req=*/3);
  BlockTable a;
  BlockTable b;
  const std::array<const BlockTable*, 2> tables = {&a, &b};
  ASSERT_EQ(cache.allocate_slots(a, 1), SlotResult::allocated);
  ASSERT_EQ(cache.allocate_slots(b, 1), SlotResult::allocated);
  EXPECT_EQ(a.state_slot(), StateSlot{1});
  EXPECT_EQ(b.state_slot(), StateSlot{4});
  EXPECT_EQ(cache.begin_snapshot(), StateSlot{7}) << "behind the slots of requests";
  cache.advance_states(a, 2);
  EXPECT_EQ(a.state_slot(), StateSlot{3});
  cache.advance_states(a, 1);
  EXPECT_EQ(a.state_slot(), StateSlot{1});
  cache.advance_states(b, 1);
  EXPECT_EQ(b.state_slot(), StateSlot{5});
  EXPECT_EQ(cache.find_broken_invariant(tables), "");
  cache.free(b);
  EXPECT_EQ(cache.num_free_state_reqs(), 1);
  ASSERT_EQ(cache.allocate_slots(b, 1), SlotResult::allocated);
  EXPECT_EQ(b.state_slot(), StateSlot{4}) << "a new owner begins with the first slot";
}

TEST(StateSlots, and_blocks_are_given_together_or_not_at_all) {
  KvCacheManager no_slots(10, 4, PrefixCaching::off, 1);
  BlockTable a;
  BlockTable b;
  ASSERT_EQ(no_slots.allocate_slots(a, 1), SlotResult::allocated);
  EXPECT_EQ(no_slots.allocate_slots(b, 1), SlotResult::no_blocks);
  EXPECT_TRUE(b.empty());
  EXPECT_EQ(no_slots.num_free_blocks(), 8);
  KvCacheManager no_blocks(3, 4, PrefixCaching::off, 2);
  BlockTable c;
  EXPECT_EQ(no_blocks.allocate_slots(c, 13), SlotResult::no_blocks);
  EXPECT_EQ(c.state_slot(), kNullStateSlot);
  EXPECT_EQ(no_blocks.num_free_state_reqs(), 2);
}

TEST(StateSlots, move_with_the_table_so_that_no_slot_has_two_owners) {
  KvCacheManager cache(10, 4, PrefixCaching::off, 2);
  BlockTable a;
  ASSERT_EQ(cache.allocate_slots(a, 1), SlotResult::allocated);
  BlockTable b = std::move(a);
  EXPECT_EQ(a.state_slot(), kNullStateSlot);  // NOLINT(bugprone-use-after-move): the contract
  const std::array<const BlockTable*, 2> tables = {&a, &b};
  EXPECT_EQ(cache.find_broken_invariant(tables), "");
}

TEST(StateSlots, of_a_model_without_recurrent_layers_do_not_exist) {
  KvCacheManager cache(10, 4);
  BlockTable a;
  ASSERT_EQ(cache.allocate_slots(a, 1), SlotResult::allocated);
  EXPECT_EQ(a.state_slot(), kNullStateSlot);
}

}  // namespace
}  // namespace reprise::kv_cache
