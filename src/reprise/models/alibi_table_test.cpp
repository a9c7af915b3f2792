#include "reprise/models/alibi_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace reprise::models {
namespace {

using ::testing::ElementsAre;

std::vector<float> column(int64_t num_heads,
                          int64_t position,
                          int64_t ranks = 1,
                          int64_t rank = 0) {
  weights::ModelConfig config;
  config.num_attention_heads = num_heads;
  config.tensor_parallel_size = ranks;
  config.tensor_rank = rank;
  const std::vector<float> table = make_alibi_table(config, position + 1);
  std::vector<float> biases;
  for (int64_t head = 0; head < num_heads; ++head) {
    biases.push_back(table[static_cast<size_t>(head * (position + 1) + position)]);
  }
  return biases;
}

TEST(AlibiTable, has_a_power_of_one_slope_for_each_head) {
  EXPECT_THAT(column(4, 1), ElementsAre(0x1p-2F, 0x1p-4F, 0x1p-6F, 0x1p-8F));
  EXPECT_THAT(column(4, 0), ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(column(2, 3), ElementsAre(3 * 0x1p-4F, 3 * 0x1p-8F));
}

TEST(AlibiTable, gives_more_heads_than_a_power_of_two_the_slopes_between) {
  // The slopes of 4 heads, then the first and the third slope of 8 heads.
  EXPECT_THAT(column(6, 1), ElementsAre(0x1p-2F, 0x1p-4F, 0x1p-6F, 0x1p-8F, 0x1p-1F, 0x1p-3F));
}

// Source: build_alibi_tensor(torch.ones(1, 2048), 32, torch.float32) of Transformers.
TEST(AlibiTable, rounds_slopes_and_biases_as_transformers_does) {
  EXPECT_EQ(column(32, 201)[0], 169.0F);
  EXPECT_EQ(column(32, 2001)[0], 1680.0F);
  EXPECT_EQ(column(32, 1023)[5], 362.0F);
  EXPECT_EQ(column(71, 1999)[70], 1144.0F);
}

TEST(AlibiTable, of_a_rank_has_the_heads_of_the_rank) {
  EXPECT_THAT(column(2, 1, 2, 1), ElementsAre(0x1p-6F, 0x1p-8F));
}

}  // namespace
}  // namespace reprise::models
