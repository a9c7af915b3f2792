#include "reprise/models/qkv_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace reprise::models {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using weights::QkvLayout;

weights::ModelConfig config_of(int64_t heads, int64_t kv_heads, int64_t head_dim) {
  weights::ModelConfig config;
  config.num_hidden_layers = 1;
  config.layer_types = {weights::LayerType::full_attention};
  config.num_attention_heads = heads;
  config.num_key_value_heads = kv_heads;
  config.head_dim = head_dim;
  return config;
}

TEST(RotatedHeadOrder, of_llama_is_the_stored_order) {
  EXPECT_THAT(rotated_head_order({}, 6), ElementsAre(0, 1, 2, 3, 4, 5));
}

TEST(RotatedHeadOrder, brings_neighbouring_pairs_half_a_head_apart) {
  EXPECT_THAT(rotated_head_order({.is_interleaved = true}, 6), ElementsAre(0, 2, 4, 1, 3, 5));
}

TEST(RotatedHeadOrder, puts_elements_that_do_not_rotate_behind_each_half) {
  EXPECT_THAT(rotated_head_order({.rotary_dim = 4}, 8), ElementsAre(0, 1, 4, 5, 2, 3, 6, 7));
  EXPECT_THAT(rotated_head_order({.rotary_dim = 4, .is_interleaved = true}, 8),
              ElementsAre(0, 2, 4, 5, 1, 3, 6, 7));
}

TEST(QkvRows, are_none_for_tensors_that_are_stored_as_they_are_loaded) {
  weights::ModelConfig config = config_of(4, 2, 2);
  EXPECT_THAT(qkv_rows(config, 0), IsEmpty());
  config.qkv_layout = QkvLayout::stacked;
  EXPECT_THAT(qkv_rows(config, 0), IsEmpty());
  EXPECT_THAT(head_norm_rows(config, 0, 4), IsEmpty());
}

TEST(QkvRows, separate_q_k_and_v_of_each_head) {
  weights::ModelConfig config = config_of(2, 2, 2);
  config.qkv_layout = QkvLayout::per_head;  // q0 k0 v0 q1 k1 v1, two rows each
  EXPECT_THAT(qkv_rows(config, 0), ElementsAre(0, 1, 6, 7, 2, 3, 8, 9, 4, 5, 10, 11));
}

TEST(QkvRows, separate_the_groups_of_each_key_head) {
  weights::ModelConfig config = config_of(4, 2, 2);
  config.qkv_layout = QkvLayout::per_group;  // q0 q1 k0 v0 q2 q3 k1 v1
  EXPECT_THAT(qkv_rows(config, 0),
              ElementsAre(0, 1, 2, 3, 8, 9, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15));
}

TEST(QkvRows, order_elements_of_q_and_k_but_not_of_v) {
  weights::ModelConfig config = config_of(1, 1, 4);
  config.rope.is_interleaved = true;
  EXPECT_THAT(qkv_rows(config, 0), ElementsAre(0, 2, 1, 3, 4, 6, 5, 7, 8, 9, 10, 11));
  EXPECT_THAT(head_norm_rows(config, 0, 2), ElementsAre(0, 2, 1, 3, 4, 6, 5, 7));
  config.rope_layers = {false};
  EXPECT_THAT(qkv_rows(config, 0), IsEmpty());
}

}  // namespace
}  // namespace reprise::models
