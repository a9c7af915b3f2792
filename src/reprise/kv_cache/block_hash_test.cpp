#include "reprise/kv_cache/block_hash.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace reprise::kv_cache {
namespace {

using Tokens = std::vector<int32_t>;

std::vector<BlockHash> chain_of(const Tokens& tokens, int block_size, const PrefixKey& key = {}) {
  BlockHashChain chain(key, block_size);
  chain.extend(tokens);
  return {chain.hashes().begin(), chain.hashes().end()};
}

Tokens some_tokens(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  Tokens tokens(count);
  for (int32_t& token : tokens) token = static_cast<int32_t>(random() % 1000);
  return tokens;
}

// Python's hashlib gives the same digests for the bytes: type, 4-byte length, payload.
TEST(BlockHashChain, gives_the_digests_of_the_documented_bytes) {
  Tokens tokens(32);
  std::iota(tokens.begin(), tokens.end(), 0);
  const auto hex = [](const BlockHash& hash) {
    std::string text;
    for (const std::byte byte : hash) text += fmt::format("{:02x}", std::to_integer<int>(byte));
    return text;
  };
  const auto hashes = chain_of(tokens, 16, {"salt", 7});
  EXPECT_EQ(hex(hashes[0]), "c8012d883403f0cdb67fa95ebbfea93b5619b477089a672cb1ec29840dbf2ece");
  EXPECT_EQ(hex(hashes[1]), "160e4434ce25bb49cf2789206b726fe1d11fff1888b79583809b1db7a1212573");
}

TEST(BlockHashChain, hashes_whole_blocks_only_and_the_same_however_it_grows) {
  const Tokens tokens = some_tokens(50, 1);
  const std::vector<BlockHash> at_once = chain_of(tokens, 16);
  EXPECT_EQ(at_once.size(), 3U);
  BlockHashChain chain({}, 16);
  for (size_t i = 0; i <= tokens.size(); ++i) {
    chain.extend(std::span(tokens).first(i));
    EXPECT_EQ(chain.hashes().size(), i / 16);
  }
  EXPECT_TRUE(std::ranges::equal(chain.hashes(), at_once));
}

TEST(BlockHashChain, is_empty_without_prefix_caching) {
  BlockHashChain chain;
  chain.extend(some_tokens(64, 1));
  EXPECT_TRUE(chain.hashes().empty());
}

TEST(BlockHashChain, differs_from_the_first_changed_token_on) {
  const Tokens tokens = some_tokens(64, 2);
  const std::vector<BlockHash> before = chain_of(tokens, 16);
  for (size_t changed = 0; changed < tokens.size(); ++changed) {
    Tokens other = tokens;
    ++other[changed];
    const std::vector<BlockHash> after = chain_of(other, 16);
    for (size_t block = 0; block < 4; ++block) {
      EXPECT_EQ(before[block] == after[block], block < changed / 16) << changed << ' ' << block;
    }
  }
}

TEST(BlockHashChain, is_another_for_every_salt_adapter_and_block_size) {
  const Tokens tokens = some_tokens(32, 3);
  std::set<BlockHash> seen;
  size_t num_chains = 0;
  const std::string zero(1, '\0');
  for (const std::string& salt :
       {std::string(), std::string("a"), std::string("b"), std::string("ab"), zero, zero + zero}) {
    for (const std::optional<uint64_t> lora :
         {std::optional<uint64_t>(), std::optional<uint64_t>(0), std::optional<uint64_t>(97)}) {
      for (const int block_size : {8, 16}) {
        for (const BlockHash& hash : chain_of(tokens, block_size, {salt, lora})) {
          seen.insert(hash);
          ++num_chains;
        }
      }
    }
  }
  EXPECT_EQ(num_chains, 6U * 3U * (4U + 2U));
  EXPECT_EQ(seen.size(), num_chains);
}

// Edits that gave equal polynomial hashes: +31 and -1 on neighbouring tokens, swaps, shifts.
TEST(BlockHashChain, does_not_collide_under_adversarial_edits) {
  std::mt19937 random(4);
  Tokens tokens = some_tokens(16, 4);
  std::set<Tokens> contents;
  std::set<BlockHash> hashes;
  for (int edit = 0; edit < 20'000; ++edit) {
    const size_t i = random() % 15;
    switch (random() % 4) {
      case 0:
        tokens[i] += 31;
        tokens[i + 1] -= 1;
        break;
      case 1:
        std::swap(tokens[i], tokens[i + 1]);
        break;
      case 2:
        std::rotate(tokens.begin(), tokens.begin() + 1, tokens.end());
        break;
      default:
        tokens[i] ^= 1 << random() % 16;
    }
    contents.insert(tokens);
    hashes.insert(chain_of(tokens, 16).front());
  }
  EXPECT_EQ(hashes.size(), contents.size());
}

}  // namespace
}  // namespace reprise::kv_cache
