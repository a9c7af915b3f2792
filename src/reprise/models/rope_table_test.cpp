#include "reprise/models/rope_table.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace reprise::models {
namespace {

using weights::RopeParameters;
using weights::RopeType;

// The frequencies from which a table was made: the angles of position 1.
std::vector<double> frequencies_of(const RopeParameters& rope,
                                   int64_t head_dim,
                                   int64_t positions) {
  const std::vector<float> table = make_rope_table(rope, head_dim, positions);
  const float* row = table.data() + head_dim;
  std::vector<double> frequencies;
  for (int64_t i = 0; i < head_dim / 2; ++i) {
    frequencies.push_back(std::atan2(row[head_dim / 2 + i], row[i]));
  }
  return frequencies;
}

void expect_near(const std::vector<double>& got, const std::vector<double>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-6 * want[i] + 1e-7) << i;
}

// The numbers below are those of ROPE_INIT_FUNCTIONS of transformers 5.23.

TEST(RopeTable, of_dynamic_changes_only_beyond_the_original_positions) {
  const RopeParameters rope{
      .type = RopeType::dynamic, .factor = 2.0, .original_max_position_embeddings = 64};
  for (int64_t positions : {2, 64}) {
    expect_near(frequencies_of(rope, 8, positions), {1, 0.1, 0.01, 0.001});
  }
  expect_near(frequencies_of(rope, 8, 128), {1, 0.0693361238, 0.00480749831, 0.00033333333});
  expect_near(frequencies_of(rope, 8, 200), {1, 0.0575369596, 0.00331050158, 0.000190476188});
}

TEST(RopeTable, of_longrope_takes_the_long_factors_beyond_the_original_positions) {
  const RopeParameters rope{.type = RopeType::longrope,
                            .original_max_position_embeddings = 64,
                            .attention_factor = 1.25,
                            .frequency_factors = {1, 1.5, 2, 3},
                            .long_factors = {1, 2, 4, 8}};
  expect_near(frequencies_of(rope, 8, 64), {1, 0.1 / 1.5, 0.005, 0.001 / 3});
  expect_near(frequencies_of(rope, 8, 65), {1, 0.05, 0.0025, 0.000125});
  EXPECT_EQ(make_rope_table(rope, 8, 65)[0], 1.25F);
}

TEST(RopeTable, of_llama3_with_equal_factors_blends_nothing) {  // as in Llama 4 Scout
  const RopeParameters rope{.type = RopeType::llama3,
                            .factor = 4.0,
                            .low_freq_factor = 1.0,
                            .high_freq_factor = 1.0,
                            .original_max_position_embeddings = 128};
  expect_near(frequencies_of(rope, 8, 2), {1, 0.1, 0.0025, 0.00025});
}

TEST(RopeTable, of_yarn_blends_between_whole_or_exact_dimensions) {
  const RopeParameters rope{.type = RopeType::yarn,
                            .factor = 4.0,
                            .original_max_position_embeddings = 64,
                            .beta_fast = 16,
                            .truncates = false};
  const std::vector<double> got = frequencies_of(rope, 32, 2);
  expect_near({got.begin(), got.begin() + 6},
              {1, 0.457739174, 0.198583528, 0.0785936117, 0.0255952496, 0.0140585322});
}

TEST(RopeTable, leaves_pairs_alone_that_do_not_rotate) {
  const RopeParameters rope{.rotary_dim = 4, .attention_factor = 2.0};
  const std::vector<float> table = make_rope_table(rope, 8, 3);
  for (int64_t position = 0; position < 3; ++position) {
    const float* row = table.data() + position * 8;
    EXPECT_NEAR(row[1], 2 * std::cos(position * 0.01), 1e-6);
    for (int64_t i : {2, 3}) {
      EXPECT_EQ(row[i], 1.0F);
      EXPECT_EQ(row[4 + i], 0.0F);
    }
  }
}

// The formula of Llama4TextAttention: log1p(floor((position + 1) / floor_scale)) * attn_scale + 1.
TEST(RopeTable, of_a_temperature_multiplies_by_a_number_that_grows_in_steps) {
  const std::vector<float> table =
      make_temperature_table({.scale = 0.4, .floor_positions = 5}, 8, 20);
  for (const auto& [position, factor] :
       std::vector<std::pair<int64_t, double>>{{0, 1.0},
                                               {3, 1.0},
                                               {4, 1.0 + 0.4 * std::log(2.0)},
                                               {8, 1.0 + 0.4 * std::log(2.0)},
                                               {9, 1.0 + 0.4 * std::log(3.0)},
                                               {19, 1.0 + 0.4 * std::log(5.0)}}) {
    const float* row = table.data() + position * 8;
    for (int64_t i = 0; i < 4; ++i) {
      EXPECT_NEAR(row[i], factor, 1e-6) << position;
      EXPECT_EQ(row[4 + i], 0.0F) << position;
    }
  }
}

}  // namespace
}  // namespace reprise::models
