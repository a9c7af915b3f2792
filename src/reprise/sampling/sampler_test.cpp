#include "reprise/sampling/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <set>
#include <vector>

namespace reprise::sampling {
namespace {

std::vector<float> random_logits(size_t vocab_size, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0F, 2.0F);
  std::vector<float> logits(vocab_size);
  for (float& logit : logits) logit = normal(random);
  return logits;
}

SampledToken sample(const std::vector<float>& logits,
                    const SamplingParams& params,
                    const std::vector<int32_t>& output = {},
                    const std::vector<int32_t>& prompt = {},
                    const std::vector<int32_t>& suppressed = {},
                    uint64_t seed = 0) {
  Sampler sampler(static_cast<int>(logits.size()));
  SampledToken result;
  sampler.sample({.logits = logits,
                  .params = &params,
                  .prompt_token_ids = prompt,
                  .output_token_ids = output,
                  .suppressed_token_ids = suppressed,
                  .seed = seed},
                 result);
  return result;
}

SamplingParams greedy() {
  SamplingParams params;
  params.temperature = 0.0F;
  return params;
}

TEST(Sampler, greedy_takes_the_first_maximal_index_at_every_size) {
  for (const size_t size : {1, 2, 15, 16, 17, 31, 32, 33, 1000}) {
    for (size_t at = 0; at < size; at += std::max<size_t>(1, size / 7)) {
      std::vector<float> logits(size, -1.0F);
      logits[at] = 2.0F;
      logits[size - 1] = 2.0F;  // a tie
      EXPECT_EQ(sample(logits, greedy()).token_id, static_cast<int32_t>(at)) << size;
    }
  }
}

TEST(Sampler, temperature_below_1e_5_is_greedy) {
  const std::vector<float> logits = random_logits(100, 1);
  const auto best =
      static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  SamplingParams params;
  params.temperature = 0.9e-5F;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    EXPECT_EQ(sample(logits, params, {}, {}, {}, seed).token_id, best);
  }
}

TEST(Sampler, top_k_one_and_tiny_top_p_equal_greedy) {
  std::vector<float> logits = random_logits(1000, 2);
  logits[700] = logits[300] = 50.0F;
  SamplingParams top_k;
  top_k.top_k = 1;
  SamplingParams top_p;
  top_p.top_p = 1e-6F;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    EXPECT_EQ(sample(logits, top_k, {}, {}, {}, seed).token_id, 300);
    EXPECT_EQ(sample(logits, top_p, {}, {}, {}, seed).token_id, 300);
  }
}

TEST(Sampler, reports_broken_numbers_as_a_status) {
  for (const SamplingParams& params : {greedy(), SamplingParams{}}) {
    for (const size_t at : {0, 15, 16, 32, 39}) {
      for (const float bad :
           {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
        std::vector<float> logits(40, 1.0F);
        logits[at] = bad;
        const SampledToken result = sample(logits, params);
        EXPECT_EQ(result.status, SamplingStatus::non_finite_logits);
        EXPECT_EQ(result.token_id, -1);
      }
    }
    EXPECT_EQ(sample(std::vector<float>(40, kNever), params).status,
              SamplingStatus::no_allowed_token);
    std::vector<float> logits(40, kNever);
    logits[17] = -3.0F;
    EXPECT_EQ(sample(logits, params).token_id, 17);
    EXPECT_EQ(sample(logits, params, {}, {}, {17}).status, SamplingStatus::no_allowed_token);
  }
}

TEST(Sampler, never_chooses_suppressed_or_disallowed_tokens) {
  const std::vector<float> logits = random_logits(50, 3);
  for (SamplingParams params : {greedy(), SamplingParams{}}) {
    params.allowed_token_ids = {4, 8, 15, 16, 23, 42};
    for (uint64_t seed = 0; seed < 100; ++seed) {
      const int32_t id = sample(logits, params, {}, {}, {8, 16}, seed).token_id;
      EXPECT_TRUE((std::set<int32_t>{4, 15, 23, 42}).contains(id)) << id;
    }
  }
}

TEST(Sampler, never_ends_a_bad_word) {
  std::vector<float> logits = {0.0F, 1.0F, 2.0F, 3.0F};
  SamplingParams params = greedy();
  params.bad_words_token_ids = {{3}, {1, 1, 2}};
  EXPECT_EQ(sample(logits, params).token_id, 2) << "one token: never; longer: not yet begun";
  EXPECT_EQ(sample(logits, params, {1}).token_id, 2);
  EXPECT_EQ(sample(logits, params, {0, 1, 1}).token_id, 1);
  EXPECT_EQ(sample(logits, params, {1, 1}).token_id, 1);
  EXPECT_EQ(sample(logits, params, {1, 1, 0}).token_id, 2) << "the word was left";
  EXPECT_EQ(sample(logits, params, {}, {1, 1}).token_id, 2) << "a prompt begins no word";
}

TEST(Sampler, survives_a_repetition_penalty_that_divides_beyond_the_largest_float) {
  for (SamplingParams params : {greedy(), SamplingParams{}}) {
    params.repetition_penalty = std::numeric_limits<float>::denorm_min();
    params.frequency_penalty = 2.0F;
    const SampledToken result = sample({4.0F, 3.0F, -9.0F}, params, /*output=*/{1}, /*prompt=*/{2});
    EXPECT_EQ(result.status, SamplingStatus::ok);
    EXPECT_EQ(result.token_id, 1);
  }
}

TEST(Sampler, applies_bias_and_penalties_as_vllm) {
  // Repetition divides positive and multiplies negative logits of prompt and output tokens.
  SamplingParams params = greedy();
  params.repetition_penalty = 2.0F;
  EXPECT_EQ(sample({4.0F, 3.0F, -9.0F}, params, /*output=*/{}, /*prompt=*/{0}).token_id, 1);
  EXPECT_EQ(sample({4.0F, 3.0F, -9.0F}, params, /*output=*/{0}, /*prompt=*/{1}).token_id, 0);
  EXPECT_EQ(sample({-1.0F, -1.5F}, params, /*output=*/{0}).token_id, 1);

  // Frequency counts output occurrences; presence counts once; the prompt does not matter.
  params = greedy();
  params.frequency_penalty = 0.5F;
  EXPECT_EQ(sample({4.0F, 2.9F}, params, {0, 0}, {0, 0, 0, 0}).token_id, 0);
  EXPECT_EQ(sample({4.0F, 2.9F}, params, {0, 0, 0}).token_id, 1);
  params = greedy();
  params.presence_penalty = 1.0F;
  EXPECT_EQ(sample({4.0F, 2.9F}, params, {0, 0, 0}).token_id, 0);
  params.presence_penalty = 1.2F;
  EXPECT_EQ(sample({4.0F, 2.9F}, params, {0}).token_id, 1);

  // Bias comes before the repetition penalty: (1 + 3) / 2 < 2.5.
  params = greedy();
  params.repetition_penalty = 2.0F;
  params.logit_bias = {{0, 3.0F}};
  EXPECT_EQ(sample({1.0F, 2.5F}, params, {}, {0}).token_id, 1);
  params.logit_bias = {{0, 100.0F}};
  EXPECT_EQ(sample({1.0F, 2.5F}, params, {}, {0}).token_id, 0);
}

TEST(Sampler, leaves_no_penalty_state_behind) {
  Sampler sampler(4);
  SamplingParams params = greedy();
  params.frequency_penalty = 2.0F;
  const std::vector<float> logits = {4.0F, 3.0F, 0.0F, 0.0F};
  const std::vector<int32_t> output = {0};
  SampledToken result;
  sampler.sample({.logits = logits, .params = &params, .output_token_ids = output}, result);
  EXPECT_EQ(result.token_id, 1);
  sampler.sample({.logits = logits, .params = &params}, result);
  EXPECT_EQ(result.token_id, 0);
}

TEST(Sampler, is_reproducible_by_seed_and_position) {
  const std::vector<float> logits(1000, 0.0F);
  const SamplingParams params;
  const std::vector<int32_t> ten(10, 1);
  const std::vector<int32_t> other_ten(10, 2);
  EXPECT_EQ(sample(logits, params, ten, {}, {}, 7).token_id,
            sample(logits, params, other_ten, {1, 2}, {}, 7).token_id);
  std::set<int32_t> by_position;
  std::set<int32_t> by_seed;
  for (size_t i = 0; i < 100; ++i) {
    by_position.insert(sample(logits, params, std::vector<int32_t>(i, 1), {}, {}, 7).token_id);
    by_seed.insert(sample(logits, params, {}, {}, {}, i).token_id);
  }
  EXPECT_GT(by_position.size(), 85U);
  EXPECT_GT(by_seed.size(), 85U);
}

TEST(Sampler, pins_its_random_numbers) {
  // With 1000 equal logits the token is floor(1000 u). If these tokens change, every seeded answer
  // changes.
  const std::vector<float> logits(1000, 0.0F);
  std::vector<int32_t> tokens;
  for (size_t position = 0; position < 5; ++position) {
    tokens.push_back(sample(logits, {}, std::vector<int32_t>(position, 0), {}, {}, 42).token_id);
  }
  EXPECT_EQ(tokens, (std::vector<int32_t>{612, 987, 825, 729, 326}));
}

TEST(Sampler, result_of_a_row_does_not_depend_on_the_batch) {
  constexpr size_t kRows = 40;
  std::vector<std::vector<float>> rows;
  std::vector<SamplingParams> params(kRows);
  std::vector<std::vector<int32_t>> outputs(kRows);
  std::mt19937 random(4);
  for (size_t i = 0; i < kRows; ++i) {
    rows.push_back(random_logits(500, static_cast<uint32_t>(i)));
    params[i].temperature = static_cast<float>(random() % 3);
    params[i].top_k = static_cast<int>(random() % 50);
    params[i].top_p = i % 2 == 0 ? 0.8F : 1.0F;
    params[i].frequency_penalty = i % 3 == 0 ? 1.0F : 0.0F;
    for (size_t n = random() % 20; n > 0; --n) {
      outputs[i].push_back(static_cast<int32_t>(random() % 500));
    }
  }
  std::vector<int32_t> alone;
  for (size_t i = 0; i < kRows; ++i) {
    alone.push_back(sample(rows[i], params[i], outputs[i], {}, {}, i).token_id);
  }
  std::vector<size_t> order(kRows);
  std::iota(order.begin(), order.end(), size_t{0});
  Sampler sampler(500);
  SampledToken result;
  for (int round = 0; round < 5; ++round) {
    std::shuffle(order.begin(), order.end(), random);
    for (const size_t i : order) {
      sampler.sample(
          {.logits = rows[i], .params = &params[i], .output_token_ids = outputs[i], .seed = i},
          result);
      ASSERT_EQ(result.token_id, alone[i]);
    }
  }
}

/// Compares `num_draws` seeded draws with the exact probabilities by a chi-square test; classes
/// with an expected count below 5 are pooled. Returns the statistic divided by its 1 - 1e-6
/// quantile (Wilson-Hilferty): a value below 1 passes.
double chi_square_ratio(const std::vector<float>& logits,
                        const SamplingParams& params,
                        const std::vector<double>& probabilities,
                        int num_draws) {
  Sampler sampler(static_cast<int>(logits.size()));
  SampledToken result;
  std::vector<int> counts(logits.size(), 0);
  for (int i = 0; i < num_draws; ++i) {
    sampler.sample(
        {.logits = logits, .params = &params, .seed = derive_seed(99, static_cast<uint64_t>(i))},
        result);
    ++counts[static_cast<size_t>(result.token_id)];
  }
  double statistic = 0.0;
  double rare_expected = 0.0;
  double rare_observed = 0.0;
  int num_classes = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    const double expected = probabilities[i] * num_draws;
    if (expected == 0.0) {
      EXPECT_EQ(counts[i], 0) << "token " << i << " was filtered out";
    } else if (expected < 5.0) {
      rare_expected += expected;
      rare_observed += counts[i];
    } else {
      statistic += (counts[i] - expected) * (counts[i] - expected) / expected;
      ++num_classes;
    }
  }
  if (rare_expected > 0.0) {
    statistic += (rare_observed - rare_expected) * (rare_observed - rare_expected) / rare_expected;
    ++num_classes;
  }
  const double df = num_classes - 1;
  constexpr double kNormalQuantile = 4.7534;  // 1 - 1e-6
  const double root = 1.0 - 2.0 / (9.0 * df) + kNormalQuantile * std::sqrt(2.0 / (9.0 * df));
  return statistic / (df * root * root * root);
}

std::vector<double> softmax(const std::vector<float>& logits, double temperature) {
  const double max = *std::max_element(logits.begin(), logits.end());
  std::vector<double> result;
  for (const float logit : logits) result.push_back(std::exp((logit - max) / temperature));
  const double sum = std::accumulate(result.begin(), result.end(), 0.0);
  for (double& p : result) p /= sum;
  return result;
}

TEST(Sampler, draws_follow_the_exact_distribution) {
  const std::vector<float> logits = random_logits(60, 5);
  for (const float temperature : {0.5F, 1.0F, 1.7F}) {
    SamplingParams params;
    params.temperature = temperature;
    EXPECT_LT(chi_square_ratio(logits, params, softmax(logits, temperature), 40000), 1.0);
  }
}

TEST(Sampler, filtered_draws_follow_the_renormalised_distribution) {
  const std::vector<float> logits = random_logits(60, 6);
  SamplingParams params;
  params.top_k = 8;
  std::vector<double> expected = softmax(logits, 1.0);
  std::vector<double> sorted = expected;
  std::sort(sorted.rbegin(), sorted.rend());
  double sum = 0.0;
  for (double& p : expected) {
    if (p < sorted[7]) p = 0.0;
    sum += p;
  }
  for (double& p : expected) p /= sum;
  EXPECT_LT(chi_square_ratio(logits, params, expected, 40000), 1.0);
}

TEST(Sampler, draws_of_top_p_and_min_p_follow_the_renormalised_distribution) {
  // Several parts of a row, and more tokens within top_p than one part has.
  const std::vector<float> logits = random_logits(400, 8);
  for (const bool is_top_p : {true, false}) {
    SamplingParams params;
    params.temperature = 1.3F;
    (is_top_p ? params.top_p : params.min_p) = is_top_p ? 0.9F : 0.02F;
    std::vector<double> expected = softmax(logits, 1.3);
    std::vector<double> sorted = expected;
    std::sort(sorted.rbegin(), sorted.rend());
    double least = sorted[0] * 0.02;
    if (is_top_p) {
      double mass = 0.0;
      for (size_t i = 0; mass < 0.9; ++i) mass += least = sorted[i];
    }
    double sum = 0.0;
    for (double& p : expected) sum += p = p < least ? 0.0 : p;
    for (double& p : expected) p /= sum;
    EXPECT_LT(chi_square_ratio(logits, params, expected, 40000), 1.0) << is_top_p;
  }
}

TEST(Sampler, chi_square_notices_a_wrong_distribution) {
  const std::vector<float> logits = random_logits(60, 5);
  EXPECT_GT(chi_square_ratio(logits, {}, softmax(logits, 1.1), 40000), 1.0);
}

TEST(Sampler, gives_raw_logprobs_of_the_chosen_and_the_likeliest_tokens) {
  SamplingParams params = greedy();
  params.logprobs = 2;
  params.logit_bias = {{0, 50.0F}};  // changes the choice, not the logprobs
  const std::vector<float> logits = {
      std::log(0.1F), std::log(0.2F), std::log(0.5F), std::log(0.2F)};
  const SampledToken result = sample(logits, params);
  EXPECT_EQ(result.token_id, 0);
  EXPECT_EQ(result.logprob.token_id, 0);
  EXPECT_NEAR(result.logprob.logprob, std::log(0.1F), 1e-6);
  EXPECT_EQ(result.logprob.rank, 4);
  ASSERT_EQ(result.top_logprobs.size(), 2U);
  EXPECT_EQ(result.top_logprobs[0].token_id, 2);
  EXPECT_EQ(result.top_logprobs[1].token_id, 1);  // the lower id of a tie
  EXPECT_NEAR(result.top_logprobs[1].logprob, std::log(0.2F), 1e-6);
  EXPECT_EQ(result.top_logprobs[1].rank, 2);
}

TEST(Sampler, top_logprobs_are_the_head_of_the_sorted_row) {
  const std::vector<float> logits = random_logits(300, 7);
  const std::vector<double> probabilities = softmax(logits, 1.0);
  SamplingParams params;
  params.logprobs = 20;
  const SampledToken result = sample(logits, params);
  std::vector<size_t> order(logits.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(
      order.begin(), order.end(), [&](size_t a, size_t b) { return logits[a] > logits[b]; });
  ASSERT_EQ(result.top_logprobs.size(), 20U);
  for (size_t i = 0; i < 20; ++i) {
    EXPECT_EQ(result.top_logprobs[i].token_id, static_cast<int32_t>(order[i]));
    EXPECT_NEAR(result.top_logprobs[i].logprob, std::log(probabilities[order[i]]), 1e-5);
  }
  EXPECT_EQ(order[static_cast<size_t>(result.logprob.rank) - 1],
            static_cast<size_t>(result.token_id));
  params.logprobs = 0;
  EXPECT_TRUE(sample(logits, params).top_logprobs.empty());
  EXPECT_EQ(sample(std::vector<float>{1.0F}, params).logprob.rank, 1);
}

TEST(Sampler, derives_distinct_seeds_for_requests) {
  std::set<uint64_t> seeds;
  for (uint64_t number = 0; number < 1000; ++number) seeds.insert(derive_seed(0, number));
  EXPECT_EQ(seeds.size(), 1000U);
  EXPECT_NE(derive_seed(0, 1), derive_seed(1, 1));
}

}  // namespace
}  // namespace reprise::sampling
