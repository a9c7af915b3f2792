#include "reprise/sampling/row_digest.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "reprise/sampling/sampler.h"

namespace reprise::sampling {
namespace {

std::vector<float> random_row(size_t size, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0F, 2.0F);
  std::vector<float> row(size);
  for (float& logit : row) logit = normal(random);
  return row;
}

SampledToken choose(const std::vector<float>& logits, const SamplingParams& params) {
  Sampler sampler(static_cast<int>(logits.size()));
  SampledToken token;
  sampler.sample({.logits = logits, .params = &params, .seed = 3}, token);
  return token;
}

float next_up(float value) { return std::nextafter(value, std::numeric_limits<float>::infinity()); }

TEST(RowDigest, depends_on_every_maximum_and_on_the_chosen_logit) {
  for (const size_t size : {1U, 63U, 64U, 65U, 300U}) {
    const std::vector<float> row = random_row(size, static_cast<uint32_t>(size));
    const SamplingParams random = {.temperature = 1.5F};
    const SampledToken token = choose(row, random);
    EXPECT_NE(token.row_digest, 0);
    for (size_t begin = 0; begin < size; begin += kPartSize) {
      std::vector<float> changed = row;
      float& largest = *std::max_element(
          changed.begin() + static_cast<ptrdiff_t>(begin),
          changed.begin() + static_cast<ptrdiff_t>(std::min(begin + kPartSize, size)));
      largest = next_up(largest);
      EXPECT_NE(choose(changed, random).row_digest, token.row_digest) << size << " " << begin;
    }
    std::vector<float> changed = row;
    float& chosen = changed[static_cast<size_t>(token.token_id)];
    chosen = std::nextafter(chosen, -100.0F);
    const SampledToken other = choose(changed, random);
    ASSERT_EQ(other.token_id, token.token_id);
    EXPECT_NE(other.row_digest, token.row_digest) << size;
  }
}

TEST(RowDigest, is_that_of_the_row_before_any_adjustment) {
  const std::vector<float> row = random_row(300, 7);
  const SampledToken plain = choose(row, {.temperature = 0});
  SamplingParams adjusted = {.temperature = 0, .logprobs = 2};
  adjusted.logit_bias = {{plain.token_id, 5.0F}, {(plain.token_id + 1) % 300, -50.0F}};
  const SampledToken same = choose(row, adjusted);
  ASSERT_EQ(same.token_id, plain.token_id);
  EXPECT_EQ(same.row_digest, plain.row_digest);
}

TEST(RowDigest, is_none_without_a_token) {
  SampledToken token = choose(random_row(10, 1), {.temperature = 0});
  EXPECT_NE(token.row_digest, 0);
  token = choose({std::numeric_limits<float>::quiet_NaN()}, {.temperature = 0});
  EXPECT_EQ(token.row_digest, 0);
}

}  // namespace
}  // namespace reprise::sampling
