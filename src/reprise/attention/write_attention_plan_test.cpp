#include "reprise/attention/write_attention_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <span>

namespace reprise::attention {
namespace {

struct ReadPlan {
  AttentionPlanHeader header;
  std::vector<PlannedRequest> requests;
};

struct Batch {
  std::vector<int32_t> starts{0};
  std::vector<int32_t> lens;

  void add(int32_t query, int32_t context) {
    starts.push_back(starts.back() + query);
    lens.push_back(context);
  }
};

ReadPlan plan_of(const Batch& batch, int64_t kv_heads, const AttentionPlanOptions& options) {
  const auto num_reqs = static_cast<int64_t>(batch.lens.size());
  std::vector<int32_t> words(static_cast<size_t>(plan_size(num_reqs)) + 1, 77);
  write_attention_plan(batch.starts, batch.lens, kv_heads, options, words);
  EXPECT_EQ(words.back(), 77) << "wrote behind its end";
  ReadPlan plan;
  plan.requests.resize(batch.lens.size());
  std::memcpy(&plan.header, words.data(), sizeof plan.header);
  const auto requests = std::as_writable_bytes(std::span(plan.requests));
  std::ranges::copy(std::as_bytes(std::span(words)).subspan(sizeof plan.header, requests.size()),
                    requests.begin());
  return plan;
}

// Expects that every token and position of every request is in exactly one item, and that no part
// is empty.
void expect_covers(const ReadPlan& plan, const Batch& batch, int32_t most) {
  int32_t items = 0;
  int32_t parts = 0;
  ASSERT_EQ(plan.header.num_reqs, static_cast<int32_t>(batch.lens.size()));
  EXPECT_EQ(plan.header.num_tokens, batch.starts.back());
  EXPECT_EQ(plan.header.positions_per_part % 32, 0);
  for (size_t r = 0; r < batch.lens.size(); ++r) {
    const PlannedRequest& request = plan.requests[r];
    EXPECT_EQ(request.first_item, items);
    EXPECT_EQ(request.first_token, batch.starts[r]);
    EXPECT_EQ(request.num_tokens, batch.starts[r + 1] - batch.starts[r]);
    EXPECT_EQ(request.seq_len, batch.lens[r]);
    const int32_t end =
        r + 1 < batch.lens.size() ? plan.requests[r + 1].first_item : plan.header.num_items;
    const int32_t own = end - request.first_item;
    if (request.first_part >= 0) {
      EXPECT_EQ(request.first_part, parts);
      EXPECT_EQ(request.num_tokens, 1);
      EXPECT_GT(own, 1);
      EXPECT_GE(own * plan.header.positions_per_part, request.seq_len);
      EXPECT_LT((own - 1) * plan.header.positions_per_part, request.seq_len);
      parts += own;
    } else {
      EXPECT_GE(own * plan.header.tokens_per_item, request.num_tokens);
      EXPECT_LT((own - 1) * plan.header.tokens_per_item, std::max(request.num_tokens, 1));
    }
    items = end;
  }
  EXPECT_EQ(plan.header.num_items, items);
  EXPECT_EQ(plan.header.num_parts, parts);
  EXPECT_LE(parts, most);
}

TEST(WriteAttentionPlan, covers_random_batches_and_never_has_more_parts_than_there_is_room_for) {
  std::mt19937 random(5);
  const auto up_to = [&random](int32_t limit) {
    return static_cast<int32_t>(random() % static_cast<uint32_t>(limit)) + 1;
  };
  for (int round = 0; round < 3000; ++round) {
    Batch batch;
    const auto num_reqs = random() % 40;
    for (unsigned r = 0; r < num_reqs; ++r) {
      const int32_t query = random() % 3 == 0 ? up_to(100) : 1;
      batch.add(query, query + up_to(random() % 2 == 0 ? 100 : 40000));
    }
    const int64_t kv_heads = up_to(16);
    const AttentionPlanOptions options{
        .wanted_items = up_to(300), .least_positions = 32 * up_to(8), .tokens_per_item = up_to(40)};
    expect_covers(plan_of(batch, kv_heads, options), batch, most_parts(options, kv_heads));
    if (HasFailure()) return;
  }
}

TEST(WriteAttentionPlan, cuts_one_long_context_into_as_many_parts_as_are_wanted) {
  Batch batch;
  batch.add(1, 32768);
  const ReadPlan plan = plan_of(batch, 8, {.wanted_items = 128, .least_positions = 256});
  EXPECT_EQ(plan.header.num_parts, 16);
  EXPECT_EQ(plan.header.positions_per_part, 2048);
}

TEST(WriteAttentionPlan, leaves_short_contexts_and_large_batches_whole) {
  Batch one;
  one.add(1, 256);
  EXPECT_EQ(plan_of(one, 1, {}).header.num_parts, 0);
  Batch many;
  for (int r = 0; r < 200; ++r) many.add(1, 4096);
  EXPECT_EQ(plan_of(many, 8, {}).header.num_parts, 0);
}

TEST(WriteAttentionPlan, does_not_cut_prompts) {
  Batch batch;
  batch.add(40, 4000);
  const ReadPlan plan = plan_of(batch, 1, {.tokens_per_item = 16});
  EXPECT_EQ(plan.header.num_parts, 0);
  EXPECT_EQ(plan.header.num_items, 3);
}

}  // namespace
}  // namespace reprise::attention
