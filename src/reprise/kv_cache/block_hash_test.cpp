#include "reprise/kv_cache/block_hash.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>
#include <set>
#include <string>
#include <vector>

namespace reprise::kv_cache {
namespace {

using Tokens = std::vector<int32_t>;

std::string hex_of(std::string_view text, size_t part_bytes) {
  Sha256 hash;
  for (; !text.empty(); text.remove_prefix(std::min(part_bytes, text.size()))) {
    hash.update(std::as_bytes(std::span(text.substr(0, part_bytes))));
  }
  std::string hex;
  for (const std::byte byte : std::move(hash).finish()) {
    hex += fmt::format("{:02x}", std::to_integer<int>(byte));
  }
  return hex;
}

// The examples of FIPS 180-4 and NIST's CAVP.
TEST(Sha256, hashes_the_published_examples_however_they_are_cut) {
  for (const size_t part_bytes :
       {size_t{1}, size_t{7}, size_t{63}, size_t{64}, size_t{65}, size_t{1'000'000}}) {
    SCOPED_TRACE(part_bytes);
    EXPECT_EQ(hex_of("", part_bytes),
              "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    EXPECT_EQ(hex_of("abc", part_bytes),
              "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    EXPECT_EQ(hex_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", part_bytes),
              "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    EXPECT_EQ(hex_of(std::string(1'000'000, 'a'), part_bytes),
              "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  }
}

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

// The edits that broke polynomial hashes: +31 and -1 on neighbours, swaps, shifts.
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
