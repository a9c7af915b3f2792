#include "reprise/kv_cache/events/kv_event_recorder.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reprise/kv_cache/kv_cache_manager.h"

namespace reprise::kv_cache {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kBlockSize = 4;

BlockHash hash_of_byte(int byte) {
  BlockHash hash{};
  for (size_t i = 0; i < hash.size(); ++i) hash[i] = static_cast<std::byte>(byte + int(i));
  return hash;
}

std::string in_hex(std::string_view bytes) {
  std::string hex;
  for (const char c : bytes) hex += fmt::format("{:02x}", static_cast<uint8_t>(c));
  return hex;
}

KvEventRecorder::Clock::time_point half_past() {
  return KvEventRecorder::Clock::time_point(std::chrono::milliseconds(1500));
}

/// The payload of the same three events in every test of the encoding.
std::string payload_of(const KvEventsConfig& config) {
  std::string payload;
  KvEventRecorder recorder(
      config, [&payload](std::string made) { payload = std::move(made); }, half_past);
  const std::array hashes = {hash_of_byte(0x10), hash_of_byte(0x50)};
  const BlockHash parent = hash_of_byte(0xc0);
  const std::vector<int32_t> tokens = {1, 127, 128, 255, 256, 65535, 65536, 7};
  const BlockSource salted{
      .token_ids = tokens, .cache_salt = "salt", .lora_id = 3, .lora_name = "sql"};
  recorder.on_stored({.hashes = hashes,
                      .parent = nullptr,
                      .token_ids = tokens,
                      .block_size = kBlockSize,
                      .source = &salted});
  const BlockSource plain{.token_ids = tokens};
  recorder.on_stored({.hashes = std::span(hashes).first(1),
                      .parent = &parent,
                      .token_ids = std::span(tokens).first(kBlockSize),
                      .block_size = kBlockSize,
                      .source = &plain});
  recorder.on_removed(hashes[1]);
  recorder.on_cleared();
  recorder.on_step_end();
  return payload;
}

// These bytes were made by msgspec's encoder from the classes of vllm/distributed/kv_events.py
// (version 0.32).
TEST(KvEventRecorder, writes_the_bytes_that_vllm_writes) {
  EXPECT_EQ(in_hex(payload_of({})),
            "93cb3ff8000000000000948aa474797065ab426c6f636b53746f726564ac626c6f636b5f68617368"
            "657392cf28292a2b2c2d2e2fcf68696a6b6c6d6e6fb1706172656e745f626c6f636b5f68617368c0"
            "a9746f6b656e5f69647398017fcc80ccffcd0100cdffffce0001000007aa626c6f636b5f73697a65"
            "04a76c6f72615f696403a66d656469756da3475055a96c6f72615f6e616d65a373716caa65787472"
            "615f6b6579739292a373716ca473616c7491a373716ca967726f75705f696478008aa474797065ab"
            "426c6f636b53746f726564ac626c6f636b5f68617368657391cf28292a2b2c2d2e2fb1706172656e"
            "745f626c6f636b5f68617368cfd8d9dadbdcdddedfa9746f6b656e5f69647394017fcc80ccffaa62"
            "6c6f636b5f73697a6504a76c6f72615f6964c0a66d656469756da3475055a96c6f72615f6e616d65"
            "c0aa65787472615f6b65797391c0a967726f75705f6964780084a474797065ac426c6f636b52656d"
            "6f766564ac626c6f636b5f68617368657391cf68696a6b6c6d6e6fa66d656469756da3475055a967"
            "726f75705f6964780081a474797065b0416c6c426c6f636b73436c656172656400");
}

// The same events with array_like=True, as vLLM's classes had it until June 2026.
TEST(KvEventRecorder, writes_events_as_arrays_for_older_routers) {
  EXPECT_EQ(in_hex(payload_of({.encoding = KvEventEncoding::array, .use_int_block_hashes = false})),
            "93cb3ff8000000000000949aab426c6f636b53746f72656492c420101112131415161718191a1b1c"
            "1d1e1f202122232425262728292a2b2c2d2e2fc420505152535455565758595a5b5c5d5e5f606162"
            "636465666768696a6b6c6d6e6fc098017fcc80ccffcd0100cdffffce00010000070403a3475055a3"
            "73716c9292a373716ca473616c7491a373716c009aab426c6f636b53746f72656491c42010111213"
            "1415161718191a1b1c1d1e1f202122232425262728292a2b2c2d2e2fc420c0c1c2c3c4c5c6c7c8c9"
            "cacbcccdcecfd0d1d2d3d4d5d6d7d8d9dadbdcdddedf94017fcc80ccff04c0a3475055c091c00094"
            "ac426c6f636b52656d6f76656491c420505152535455565758595a5b5c5d5e5f6061626364656667"
            "68696a6b6c6d6e6fa34750550091b0416c6c426c6f636b73436c656172656400");
}

TEST(KvEventRecorder, gives_no_payload_for_a_step_without_events) {
  int num_payloads = 0;
  KvEventRecorder recorder({}, [&](const std::string&) { ++num_payloads; });
  recorder.on_step_end();
  EXPECT_EQ(num_payloads, 0);
  recorder.on_cleared();
  recorder.on_step_end();
  recorder.on_step_end();
  EXPECT_EQ(num_payloads, 1);
}

/// A router that knows of the cache only what the payloads say.
class Router {
 public:
  void apply(const std::string& payload) {
    const Json batch = Json::from_msgpack(payload);
    ASSERT_EQ(batch.size(), 3U);
    for (const Json& event : batch[1]) {
      if (event["type"] == "BlockStored") {
        store(event);
      } else if (event["type"] == "BlockRemoved") {
        for (const Json& hash : event["block_hashes"]) {
          ASSERT_EQ(prefixes_.erase(hash.get<uint64_t>()), 1U) << "removed, but was not stored";
        }
      } else {
        ASSERT_EQ(event["type"], "AllBlocksCleared");
        prefixes_.clear();
      }
    }
  }

  /// For each block: all tokens from the start of the prompt to the end of the block. A block keeps
  /// these tokens when its parent is removed.
  [[nodiscard]] const std::map<uint64_t, std::vector<int32_t>>& prefixes() const {
    return prefixes_;
  }

 private:
  void store(const Json& event) {
    const auto tokens = event["token_ids"].get<std::vector<int32_t>>();
    const auto hashes = event["block_hashes"].get<std::vector<uint64_t>>();
    ASSERT_EQ(tokens.size(), hashes.size() * kBlockSize);
    std::vector<int32_t> prefix;
    if (!event["parent_block_hash"].is_null()) {
      prefix = history_.at(event["parent_block_hash"].get<uint64_t>());
    }
    for (size_t i = 0; i < hashes.size(); ++i) {
      const auto* const first = &tokens[i * kBlockSize];
      prefix.insert(prefix.end(), first, first + kBlockSize);
      ASSERT_TRUE(prefixes_.emplace(hashes[i], prefix).second) << "stored twice";
      history_[hashes[i]] = prefix;
    }
  }

  std::map<uint64_t, std::vector<int32_t>> prefixes_;
  std::map<uint64_t, std::vector<int32_t>> history_;  // also of blocks that were removed
};

uint64_t last_8_bytes(const BlockHash& hash) {
  uint64_t bits = 0;
  for (size_t i = 24; i < 32; ++i) bits = bits * 256 + std::to_integer<uint64_t>(hash[i]);
  return bits;
}

struct RandomRequest {
  std::vector<int32_t> tokens;
  std::string salt;
  BlockTable table;
  BlockHashChain chain;
  int num_computed = 0;
};

class RandomCacheLoad : public testing::TestWithParam<int> {
 protected:
  RandomCacheLoad()
      : random_(static_cast<uint32_t>(GetParam())),
        recorder_({}, [this](const std::string& payload) { router_.apply(payload); }) {
    cache_.set_listener(&recorder_);
  }

  int below(int limit) { return static_cast<int>(random_() % static_cast<uint32_t>(limit)); }

  void admit() {
    auto request = std::make_unique<RandomRequest>();
    request->salt = below(4) == 0 ? "salt" : "";
    // There are few different tokens, and prompts begin alike, so that prefixes are shared.
    const int length = 1 + below(40);
    for (int i = 0; i < length; ++i) {
      request->tokens.push_back(i < 12 ? below(10) == 0 ? 1 : 0 : below(2));
    }
    request->chain = cache_.make_chain({.cache_salt = request->salt});
    request->chain.extend(request->tokens);
    const auto prefix = cache_.find_prefix(request->chain, (length - 1) / kBlockSize);
    if (cache_.allocate_slots_after(request->table, request->chain, prefix, length) ==
        SlotResult::no_blocks) {
      return;
    }
    request->num_computed = prefix.num_blocks * kBlockSize;
    live_.push_back(std::move(request));
  }

  void compute(RandomRequest& request) {
    const int num_tokens = static_cast<int>(request.tokens.size());
    request.num_computed =
        std::min(num_tokens, request.num_computed + 1 + below(2 * kBlockSize + 1));
    cache_.publish(request.table,
                   request.chain,
                   request.num_computed,
                   {.token_ids = request.tokens, .cache_salt = request.salt});
  }

  void end(size_t index) {
    if (below(8) == 0) cache_.unpublish(live_[index]->table);
    cache_.free(live_[index]->table);
    live_.erase(live_.begin() + static_cast<ptrdiff_t>(index));
  }

  /// Every block that the router knows is found in the cache under the hash of the router's tokens;
  /// and the cache has no other block.
  void expect_router_knows_the_cache() {
    ASSERT_EQ(router_.prefixes().size(), static_cast<size_t>(cache_.num_published_blocks()));
    for (const auto& [hash, tokens] : router_.prefixes()) {
      bool is_found = false;
      for (const std::string_view salt : {"", "salt"}) {
        BlockHashChain chain = cache_.make_chain({.cache_salt = salt});
        chain.extend(tokens);
        if (last_8_bytes(chain.hashes().back()) != hash) continue;
        is_found = cache_.is_published(chain.hashes().back());
      }
      ASSERT_TRUE(is_found) << fmt::format("block {:x} is not in the cache", hash);
    }
  }

  std::mt19937 random_;
  KvCacheManager cache_{24, kBlockSize, PrefixCaching::on};
  Router router_;
  KvEventRecorder recorder_;
  std::vector<std::unique_ptr<RandomRequest>> live_;
};

TEST_P(RandomCacheLoad, a_router_that_applies_the_events_knows_exactly_the_cached_blocks) {
  size_t most_blocks = 0;
  for (int step = 0; step < 400; ++step) {
    if (live_.size() < 6) admit();
    for (size_t i = live_.size(); i-- > 0;) {
      const auto index = static_cast<size_t>(below(static_cast<int>(live_.size())));
      compute(*live_[index]);
      const bool is_done = std::cmp_equal(live_[index]->num_computed, live_[index]->tokens.size());
      if (is_done || below(10) == 0) end(index);
    }
    if (below(50) == 0) {
      while (!live_.empty()) end(0);
      ASSERT_TRUE(cache_.reset_prefix_cache());
    }
    recorder_.on_step_end();
    expect_router_knows_the_cache();
    most_blocks = std::max(most_blocks, router_.prefixes().size());
    if (HasFatalFailure()) FAIL() << "in step " << step;
  }
  EXPECT_GT(most_blocks, 15U) << "a load that fills the cache";
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomCacheLoad, testing::Range(0, 40));

}  // namespace
}  // namespace reprise::kv_cache
