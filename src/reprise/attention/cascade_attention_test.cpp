#include "reprise/attention/cascade_attention.h"

#include <gtest/gtest.h>

namespace reprise::attention {
namespace {

using cudagraph::BatchFacts;

BatchFacts decodes(int32_t num_reqs, int32_t prefix_len) {
  return {.num_tokens = num_reqs,
          .num_reqs = num_reqs,
          .uniform = true,
          .common_prefix_len = prefix_len};
}

constexpr CascadeShape kGroupsOfFour = {.num_kv_heads = 8, .group_size = 4, .num_workers = 2};

TEST(CascadeAttention, needs_eight_requests_and_a_prefix_of_256_tokens) {
  EXPECT_GT(choose_cascade(kGroupsOfFour, decodes(8, 256)), 0);
  EXPECT_EQ(choose_cascade(kGroupsOfFour, decodes(7, 8192)), 0);
  EXPECT_EQ(choose_cascade(kGroupsOfFour, decodes(64, 255)), 0);
  EXPECT_EQ(choose_cascade(kGroupsOfFour, decodes(64, 0)), 0);
}

TEST(CascadeAttention, takes_a_multiple_of_a_chunk_of_the_prefix) {
  EXPECT_EQ(cascade_prefix_len(decodes(8, 271)), 256);
  EXPECT_EQ(cascade_prefix_len(decodes(8, 288)), 288);
  EXPECT_EQ(cascade_prefix_len(decodes(8, 31)), 0);
}

TEST(CascadeAttention, lets_as_many_tokens_share_their_loads_as_a_kernel_takes_at_once) {
  EXPECT_EQ(choose_cascade(kGroupsOfFour, decodes(64, 1024)), 8);
  EXPECT_EQ(
      choose_cascade({.num_kv_heads = 4, .group_size = 1, .num_workers = 2}, decodes(64, 1024)),
      32);
}

TEST(CascadeAttention, leaves_every_worker_something_to_do) {
  // With 8 requests and one key/value head, one worker would have the work of all tokens together.
  const CascadeShape shape = {.num_kv_heads = 1, .group_size = 1, .num_workers = 4};
  EXPECT_EQ(choose_cascade(shape, decodes(8, 1024)), 2);
  // With as many workers as requests, cascade attention saves nothing.
  EXPECT_EQ(
      choose_cascade({.num_kv_heads = 1, .group_size = 1, .num_workers = 8}, decodes(8, 1024)), 0);
}

TEST(CascadeAttention, is_not_chosen_where_the_tokens_of_a_request_share_their_loads_already) {
  EXPECT_EQ(choose_cascade({.num_kv_heads = 1, .group_size = 16}, decodes(64, 8192)), 0);
  EXPECT_EQ(choose_cascade({.num_kv_heads = 1, .group_size = 32}, decodes(64, 8192)), 0);
  BatchFacts prompts = decodes(8, 1024);
  prompts.num_tokens = 8 * 32;
  EXPECT_EQ(choose_cascade(kGroupsOfFour, prompts), 0);
  prompts.num_tokens = kMostCascadeTokens + 1;
  EXPECT_EQ(choose_cascade({.num_kv_heads = 8, .group_size = 1}, prompts), 0);
}

}  // namespace
}  // namespace reprise::attention
