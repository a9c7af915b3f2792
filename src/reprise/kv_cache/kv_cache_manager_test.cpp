#include "reprise/kv_cache/kv_cache_manager.h"

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <set>
#include <vector>

#include "reprise/base/error.h"
#include "reprise/kv_cache/block_pool.h"

namespace reprise::kv_cache {
namespace {

TEST(BlockPool, never_hands_out_the_null_block_and_each_other_block_once) {
  BlockPool pool(5);
  std::set<BlockId> seen;
  while (const auto block = pool.allocate()) seen.insert(*block);
  EXPECT_EQ(seen, (std::set<BlockId>{BlockId{1}, BlockId{2}, BlockId{3}, BlockId{4}}));
  EXPECT_EQ(pool.num_free_blocks(), 0);
  EXPECT_EQ(pool.find_broken_invariant(), "");
}

TEST(BlockPool, frees_a_block_with_its_last_reference) {
  BlockPool pool(3);
  const BlockId block = pool.allocate().value();
  pool.add_reference(block);
  EXPECT_EQ(pool.reference_count(block), 2);
  pool.release(block);
  EXPECT_EQ(pool.num_free_blocks(), 1);
  EXPECT_EQ(pool.find_broken_invariant(), "");
  pool.release(block);
  EXPECT_EQ(pool.num_free_blocks(), 2);
  EXPECT_EQ(pool.find_broken_invariant(), "");
}

TEST(BlockPool, refuses_sizes_that_hold_nothing) {
  EXPECT_THROW(BlockPool(1), InvalidArgument);
  EXPECT_THROW(BlockPool(0), InvalidArgument);
  EXPECT_THROW(BlockPool(-1), InvalidArgument);
  EXPECT_THROW(BlockPool(2, 0), InvalidArgument);
  EXPECT_EQ(BlockPool(2, 1).num_usable_blocks(), 1);
}

TEST(BlockPoolDeathTest, stops_on_double_free_and_on_the_null_block) {
  BlockPool pool(3);
  const BlockId block = pool.allocate().value();
  pool.release(block);
  EXPECT_DEATH(pool.release(block), "freed twice");
  EXPECT_DEATH(pool.release(kNullBlock), "not one of the usable blocks");
  EXPECT_DEATH(pool.add_reference(BlockId{3}), "not one of the usable blocks");
}

TEST(KvCacheManager, compares_tables_block_by_block_from_the_start) {
  KvCacheManager manager(20, 4, PrefixCaching::on);
  const std::vector<int32_t> tokens(16, 7);
  const auto chain_of = [&] {
    BlockHashChain chain = manager.make_chain({});
    chain.extend(tokens);
    return chain;
  };
  const BlockHashChain chain = chain_of();
  BlockTable first;
  ASSERT_EQ(manager.allocate_slots(first, 16), SlotResult::allocated);
  manager.publish(first, chain, 12);
  BlockTable second;
  const KvCacheManager::CachedPrefix prefix = manager.find_prefix(chain, 4);
  ASSERT_EQ(manager.allocate_slots_after(second, chain, prefix, 16), SlotResult::allocated);
  EXPECT_EQ(KvCacheManager::num_common_prefix_blocks(first, second, 4), 3);
  EXPECT_EQ(KvCacheManager::num_common_prefix_blocks(first, second, 2), 2);
  EXPECT_EQ(KvCacheManager::num_common_prefix_blocks(first, first, 9), 4);
  EXPECT_TRUE(manager.is_shared(first.block_ids()[2]));
  EXPECT_FALSE(manager.is_shared(first.block_ids()[3]));
  BlockTable third;
  ASSERT_EQ(manager.allocate_slots(third, 16), SlotResult::allocated);
  EXPECT_EQ(KvCacheManager::num_common_prefix_blocks(first, third, 4), 0);
  for (BlockTable* table : {&first, &second, &third}) manager.free(*table);
}

TEST(KvCacheManager, grows_by_whole_blocks_at_block_edges) {
  KvCacheManager manager(/*num_blocks=*/6);
  BlockTable table;
  for (const auto& [num_tokens, num_blocks] : std::vector<std::pair<int, int>>{
           {0, 0}, {1, 1}, {15, 1}, {16, 1}, {17, 2}, {32, 2}, {33, 3}}) {
    ASSERT_EQ(manager.allocate_slots(table, num_tokens), SlotResult::allocated) << num_tokens;
    EXPECT_EQ(table.num_blocks(), num_blocks) << num_tokens;
  }
  // The table is already long enough.
  EXPECT_EQ(manager.allocate_slots(table, 1), SlotResult::allocated);
  EXPECT_EQ(table.num_blocks(), 3);
  EXPECT_EQ(KvCacheManager::block_ids(table)[0], BlockId{1});
  EXPECT_DOUBLE_EQ(manager.usage(), 3.0 / 5.0);
}

TEST(KvCacheManager, allocates_all_or_nothing) {
  KvCacheManager manager(/*num_blocks=*/4);
  BlockTable table;
  EXPECT_EQ(manager.allocate_slots(table, 49), SlotResult::no_blocks);
  EXPECT_TRUE(table.empty());
  EXPECT_EQ(manager.num_free_blocks(), 3);
  EXPECT_EQ(manager.allocate_slots(table, 48), SlotResult::allocated);
  EXPECT_EQ(manager.allocate_slots(table, 49), SlotResult::no_blocks);
  EXPECT_EQ(table.num_blocks(), 3);
  EXPECT_EQ(manager.capacity_tokens(), 48);
  manager.free(table);
  EXPECT_TRUE(table.empty());
  EXPECT_EQ(manager.num_free_blocks(), 3);
}

TEST(KvCacheManager, gives_freed_blocks_out_in_the_same_order) {
  KvCacheManager manager(/*num_blocks=*/8);
  BlockTable table;
  ASSERT_EQ(manager.allocate_slots(table, 64), SlotResult::allocated);
  const std::vector<BlockId> before(table.block_ids().begin(), table.block_ids().end());
  manager.free(table);
  ASSERT_EQ(manager.allocate_slots(table, 64), SlotResult::allocated);
  EXPECT_EQ(std::vector<BlockId>(table.block_ids().begin(), table.block_ids().end()), before);
}

TEST(KvCacheManager, does_not_reallocate_a_reserved_table) {
  KvCacheManager manager(/*num_blocks=*/8);
  BlockTable table;
  manager.reserve(table, 100);
  ASSERT_EQ(manager.allocate_slots(table, 1), SlotResult::allocated);
  const BlockId* storage = table.block_ids().data();
  ASSERT_EQ(manager.allocate_slots(table, 100), SlotResult::allocated);
  EXPECT_EQ(table.block_ids().data(), storage);
  manager.free(table);
  ASSERT_EQ(manager.allocate_slots(table, 100), SlotResult::allocated);
  EXPECT_EQ(table.block_ids().data(), storage);
}

TEST(KvCacheManager, sees_a_table_that_was_lost_without_being_freed) {
  KvCacheManager manager(/*num_blocks=*/4);
  BlockTable table;
  ASSERT_EQ(manager.allocate_slots(table, 1), SlotResult::allocated);
  EXPECT_EQ(manager.find_broken_invariant(std::array<const BlockTable*, 1>{&table}), "");
  EXPECT_EQ(manager.find_broken_invariant({}), "block 1 has 1 references and 0 owners");
}

/// A manager with prefix caching, and requests with different tokens.
struct PrefixBench {
  explicit PrefixBench(int num_blocks) : manager(num_blocks, 4, PrefixCaching::on) {}

  struct Entry {
    BlockHashChain chain;
    BlockTable table;
    int num_cached_blocks = 0;
  };
  /// Admits a request with these tokens, computes all of them, and publishes the request's blocks.
  Entry run(const std::vector<int32_t>& tokens, const PrefixKey& key = {}) {
    Entry entry{.chain = manager.make_chain(key)};
    entry.chain.extend(tokens);
    const auto num_tokens = static_cast<int>(tokens.size());
    const KvCacheManager::CachedPrefix prefix =
        manager.find_prefix(entry.chain, (num_tokens - 1) / 4);
    entry.num_cached_blocks = prefix.num_blocks;
    EXPECT_EQ(manager.allocate_slots_after(entry.table, entry.chain, prefix, num_tokens),
              SlotResult::allocated);
    manager.publish(entry.table, entry.chain, num_tokens);
    return entry;
  }

  KvCacheManager manager;
};

std::vector<int32_t> counting(int first, int count) {
  std::vector<int32_t> tokens;
  for (int i = 0; i < count; ++i) tokens.push_back(first + i);
  return tokens;
}

TEST(PrefixCaching, shares_whole_blocks_and_never_the_whole_prompt) {
  PrefixBench bench(20);
  PrefixBench::Entry first = bench.run(counting(0, 12));
  EXPECT_EQ(first.num_cached_blocks, 0);
  PrefixBench::Entry same = bench.run(counting(0, 12));
  // The third block has the last token, which must be computed to get logits.
  EXPECT_EQ(same.num_cached_blocks, 2);
  EXPECT_EQ(same.table.block_ids()[1], first.table.block_ids()[1]);
  EXPECT_NE(same.table.block_ids()[2], first.table.block_ids()[2]);
  PrefixBench::Entry longer = bench.run(counting(0, 13));
  EXPECT_EQ(longer.num_cached_blocks, 3);
  PrefixBench::Entry partial = bench.run(counting(0, 7));
  EXPECT_EQ(partial.num_cached_blocks, 1);
  EXPECT_EQ(bench.manager.find_broken_invariant(std::array<const BlockTable*, 4>{
                &first.table, &same.table, &longer.table, &partial.table}),
            "");
}

TEST(PrefixCaching, finds_the_blocks_of_a_finished_request) {
  PrefixBench bench(20);
  PrefixBench::Entry first = bench.run(counting(0, 13));
  const std::vector<BlockId> blocks(first.table.block_ids().begin(), first.table.block_ids().end());
  bench.manager.free(first.table);
  EXPECT_EQ(bench.manager.num_free_blocks(), 19);
  const PrefixBench::Entry again = bench.run(counting(0, 13));
  EXPECT_EQ(again.num_cached_blocks, 3);
  EXPECT_TRUE(std::ranges::equal(again.table.block_ids().first(3), std::span(blocks).first(3)));
}

TEST(PrefixCaching, isolates_salts_and_adapters) {
  PrefixBench bench(40);
  (void)bench.run(counting(0, 13));
  EXPECT_EQ(bench.run(counting(0, 13), {.cache_salt = "a"}).num_cached_blocks, 0);
  EXPECT_EQ(bench.run(counting(0, 13), {.cache_salt = "b"}).num_cached_blocks, 0);
  EXPECT_EQ(bench.run(counting(0, 13), {.lora_id = 0}).num_cached_blocks, 0);
  EXPECT_EQ(bench.run(counting(0, 13), {.cache_salt = "a"}).num_cached_blocks, 3);
}

TEST(PrefixCaching, evicts_the_least_recently_used_and_of_it_the_end_first) {
  PrefixBench bench(11);
  PrefixBench::Entry a = bench.run(counting(0, 13));    // 4 blocks, 3 of them full
  PrefixBench::Entry b = bench.run(counting(100, 13));  // 4 blocks, 3 of them full
  bench.manager.free(a.table);
  bench.manager.free(b.table);
  // Free blocks: two were never used, two were not full and thus have no hash. The pool reuses
  // these four first. The fifth block that `other` needs is the last full block of a.
  PrefixBench::Entry other = bench.run(counting(200, 20));
  EXPECT_EQ(bench.manager.find_prefix(a.chain, 9).num_blocks, 2);
  EXPECT_EQ(bench.manager.find_prefix(b.chain, 9).num_blocks, 3);
  // A prefix that is used again counts as recently used.
  bench.manager.free(other.table);
  const PrefixBench::Entry a_again = bench.run(counting(0, 9));
  EXPECT_EQ(a_again.num_cached_blocks, 2);
}

TEST(PrefixCaching, does_not_evict_what_it_has_just_found) {
  PrefixBench bench(5);
  PrefixBench::Entry a = bench.run(counting(0, 16));
  bench.manager.free(a.table);
  // All 4 blocks are free and cached. The request reuses 3 of them, so only one free block is left,
  // but it needs 2 more.
  BlockHashChain chain = bench.manager.make_chain({});
  std::vector<int32_t> tokens = counting(0, 12);
  for (int i = 0; i < 8; ++i) tokens.push_back(500);
  chain.extend(tokens);
  const KvCacheManager::CachedPrefix prefix = bench.manager.find_prefix(chain, 4);
  EXPECT_EQ(prefix.num_blocks, 3);
  EXPECT_EQ(prefix.num_free_blocks, 3);
  BlockTable table;
  EXPECT_EQ(bench.manager.allocate_slots_after(table, chain, prefix, 20), SlotResult::no_blocks);
  EXPECT_TRUE(table.empty());
  EXPECT_EQ(bench.manager.num_free_blocks(), 4);
  EXPECT_EQ(bench.manager.allocate_slots_after(table, chain, prefix, 16), SlotResult::allocated);
}

TEST(PrefixCaching, forgets_blocks_whose_content_is_in_doubt) {
  PrefixBench bench(10);
  PrefixBench::Entry a = bench.run(counting(0, 13));
  bench.manager.unpublish(a.table);
  bench.manager.free(a.table);
  EXPECT_EQ(bench.run(counting(0, 13)).num_cached_blocks, 0);
}

TEST(PrefixCaching, is_reset_only_while_no_block_is_in_use) {
  PrefixBench bench(10);
  PrefixBench::Entry a = bench.run(counting(0, 13));
  EXPECT_FALSE(bench.manager.reset_prefix_cache());
  EXPECT_EQ(bench.manager.num_published_blocks(), 3);
  bench.manager.free(a.table);
  EXPECT_TRUE(bench.manager.reset_prefix_cache());
  EXPECT_EQ(bench.manager.num_published_blocks(), 0);
  EXPECT_EQ(bench.run(counting(0, 13)).num_cached_blocks, 0);
}

TEST(PrefixCaching, can_be_off) {
  KvCacheManager manager(10, 4, PrefixCaching::off);
  BlockHashChain chain = manager.make_chain({});
  chain.extend(counting(0, 13));
  EXPECT_TRUE(chain.hashes().empty());
  BlockTable table;
  ASSERT_EQ(manager.allocate_slots(table, 13), SlotResult::allocated);
  manager.publish(table, chain, 13);
  EXPECT_EQ(manager.num_published_blocks(), 0);
}

TEST(KvCacheManager, keeps_its_invariants_under_random_use) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    KvCacheManager manager(static_cast<int>(2 + random() % 40),
                           static_cast<int>(1 + random() % 17));
    std::array<BlockTable, 6> tables;
    std::array<const BlockTable*, 6> views{};
    for (size_t i = 0; i < tables.size(); ++i) views[i] = &tables[i];
    for (int step = 0; step < 500; ++step) {
      BlockTable& table = tables[random() % tables.size()];
      const int num_free = manager.num_free_blocks();
      if (random() % 4 == 0) {
        const int num_owned = table.num_blocks();
        manager.free(table);
        ASSERT_EQ(manager.num_free_blocks(), num_free + num_owned);
      } else {
        const int num_tokens = static_cast<int>(random() % 200);
        const int missing = std::max(0, manager.blocks_for(num_tokens) - table.num_blocks());
        const bool allocated = manager.allocate_slots(table, num_tokens) == SlotResult::allocated;
        ASSERT_EQ(allocated, missing <= num_free);
        ASSERT_EQ(manager.num_free_blocks(), allocated ? num_free - missing : num_free);
      }
      ASSERT_EQ(manager.find_broken_invariant(views), "") << "seed " << seed << " step " << step;
    }
  }
}

}  // namespace
}  // namespace reprise::kv_cache
