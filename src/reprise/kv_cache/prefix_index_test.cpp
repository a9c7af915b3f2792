#include "reprise/kv_cache/prefix_index.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace reprise::kv_cache {
namespace {

/// The hashes share four home places, so runs in the table are long and wrap around its end.
BlockHash clashing_hash(uint32_t value) {
  BlockHash hash{};
  hash[0] = static_cast<std::byte>(252 + value % 4);
  hash[31] = static_cast<std::byte>(value);
  return hash;
}

TEST(PrefixIndex, behaves_like_a_map_under_random_use) {
  constexpr int kNumBlocks = 24;
  for (uint32_t seed = 0; seed < 10; ++seed) {
    std::mt19937 random(seed);
    PrefixIndex index(kNumBlocks);
    std::map<BlockHash, BlockId> expected;
    std::map<BlockId, BlockHash> hash_of;
    for (int step = 0; step < 5000; ++step) {
      const BlockId block{static_cast<int32_t>(random() % kNumBlocks)};
      const BlockHash hash = clashing_hash(random() % 40);
      if (hash_of.contains(block)) {
        index.erase(block);
        expected.erase(hash_of[block]);
        hash_of.erase(block);
      } else {
        const bool is_new = expected.try_emplace(hash, block).second;
        ASSERT_EQ(index.insert(hash, block), is_new);
        if (is_new) hash_of[block] = hash;
      }
      if (random() % 2000 == 0) {
        index.clear();
        expected.clear();
        hash_of.clear();
      }
      for (uint32_t value = 0; value < 40; ++value) {
        const auto found = expected.find(clashing_hash(value));
        ASSERT_EQ(index.find(clashing_hash(value)),
                  found == expected.end() ? std::nullopt : std::optional(found->second));
      }
      ASSERT_EQ(index.size(), static_cast<int>(expected.size()));
      ASSERT_EQ(index.find_broken_invariant(), "");
    }
  }
}

}  // namespace
}  // namespace reprise::kv_cache
