#include "reprise/api/options/state_caching.h"

#include <gtest/gtest.h>

#include "reprise/base/error.h"

namespace reprise::api {
namespace {

weights::ModelConfig model_of(int num_attention_layers, int num_recurrent_layers) {
  weights::ModelConfig config;
  config.num_hidden_layers = num_attention_layers + num_recurrent_layers;
  config.layer_types.assign(static_cast<size_t>(num_attention_layers),
                            weights::LayerType::full_attention);
  config.layer_types.insert(config.layer_types.end(),
                            static_cast<size_t>(num_recurrent_layers),
                            weights::LayerType::linear_attention);
  return config;
}

bool caches(const EngineArgs& args, const weights::ModelConfig& config, size_t num_warnings = 0) {
  std::vector<std::string> warnings;
  const bool result = caches_prefixes(args, config, warnings);
  EXPECT_EQ(warnings.size(), num_warnings);
  return result;
}

TEST(CachesPrefixes, by_default_unless_the_model_only_has_recurrent_layers) {
  EXPECT_TRUE(caches({}, model_of(2, 0)));
  EXPECT_TRUE(caches({}, model_of(1, 3)));
  EXPECT_FALSE(caches({}, model_of(0, 3)));
  EXPECT_TRUE(caches({.enable_prefix_caching = true}, model_of(0, 3)));
  EXPECT_FALSE(caches({.enable_prefix_caching = false}, model_of(1, 3)));
}

TEST(CachesPrefixes, of_a_hybrid_unless_the_mamba_cache_mode_is_none) {
  EXPECT_FALSE(caches({.mamba_cache_mode = "none"}, model_of(1, 3)));
  EXPECT_TRUE(caches({.mamba_cache_mode = "align"}, model_of(1, 3)));
  EXPECT_FALSE(caches({.enable_prefix_caching = false, .mamba_cache_mode = "align"},
                      model_of(1, 3),
                      /*num_warnings=*/1));
  EXPECT_TRUE(caches({.mamba_cache_mode = "align"}, model_of(2, 0), /*num_warnings=*/1));
}

TEST(CachesPrefixes, refuses_a_mamba_cache_mode_that_does_not_exist) {
  std::vector<std::string> warnings;
  EXPECT_THROW((void)caches_prefixes({.mamba_cache_mode = "all"}, model_of(1, 3), warnings),
               InvalidArgument);
}

TEST(CachesPrefixes, of_a_hybrid_only_with_chunks) {
  EXPECT_FALSE(caches({.enable_chunked_prefill = false}, model_of(1, 3), /*num_warnings=*/1));
}

TEST(CachesPrefixes, refuses_a_retention_interval_that_no_block_ends_at) {
  std::vector<std::string> warnings;
  for (const int32_t interval : {-16, 24}) {
    EngineArgs args;
    args.prefix_cache_retention_interval = interval;
    EXPECT_THROW((void)caches_prefixes(args, model_of(1, 3), warnings), InvalidArgument);
  }
  EngineArgs args;
  args.prefix_cache_retention_interval = 32;
  EXPECT_TRUE(caches(args, model_of(1, 3)));
}

TEST(NumStateSnapshots, take_half_of_the_memory_and_leave_room_for_one_request) {
  EngineArgs args;
  args.max_num_seqs = 100;
  const kv_cache::KvCacheLayout block{.num_layers = 1,
                                      .num_blocks = 1,
                                      .num_kv_heads = 1,
                                      .block_size = 16,
                                      .head_dim = 8,
                                      .dtype = DType::f32};
  const kv_cache::StateCacheLayout states{
      .num_layers = 1, .num_slots = 1, .conv_inputs = 3, .conv_size = 100};
  const auto of_memory = [&](int64_t bytes, int32_t max_model_len) {
    return num_state_snapshots(args, {.bytes = bytes, .option = ""}, block, states, max_model_len);
  };
  const auto slot = static_cast<int64_t>(states.bytes_per_slot());
  EXPECT_EQ(of_memory(10 * slot, 16), 4) << "five fit, four is a power of two";
  EXPECT_EQ(of_memory(slot, 16), 0);
  EXPECT_EQ(of_memory(1'000'000'000, 16), 256) << "at most four for each request";
  const auto blocks = static_cast<int64_t>(block.bytes_per_block());
  EXPECT_EQ(of_memory(1001 * blocks + slot, 16'000), 1) << "a thousand blocks and the null block";
  EXPECT_EQ(of_memory(1001 * blocks + slot - 1, 16'000), 0);
}

}  // namespace
}  // namespace reprise::api
