#include "reprise/bench/statistics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "reprise/bench/random_source.h"

namespace reprise::bench {
namespace {

// The expected numbers were computed with numpy 2 from the same values.
const std::vector<double> kValues = {3.5, 1.25, 9.0, 2.0, 2.0, 7.75, 0.5};

TEST(Statistics, agree_with_numpy) {
  EXPECT_DOUBLE_EQ(mean(kValues), 3.7142857142857144);
  EXPECT_DOUBLE_EQ(median(kValues), 2.0);
  EXPECT_DOUBLE_EQ(standard_deviation(kValues), 3.0834482420213396);
  EXPECT_DOUBLE_EQ(percentile(kValues, 0), 0.5);
  EXPECT_DOUBLE_EQ(percentile(kValues, 1), 0.545);
  EXPECT_DOUBLE_EQ(percentile(kValues, 25), 1.625);
  EXPECT_DOUBLE_EQ(percentile(kValues, 90), 8.25);
  EXPECT_DOUBLE_EQ(percentile(kValues, 99), 8.925);
  EXPECT_DOUBLE_EQ(percentile(kValues, 99.9), 8.9925);
  EXPECT_DOUBLE_EQ(percentile(kValues, 100), 9.0);
}

TEST(Statistics, of_nothing_are_zero_and_of_one_value_are_it) {
  EXPECT_EQ(mean({}), 0);
  EXPECT_EQ(median({}), 0);
  EXPECT_EQ(standard_deviation({}), 0);
  EXPECT_EQ(percentile({}, 99), 0);
  const std::vector<double> one = {4.5};
  EXPECT_EQ(median(one), 4.5);
  EXPECT_EQ(percentile(one, 99), 4.5);
  EXPECT_EQ(standard_deviation(one), 0);
}

TEST(RandomSource, draws_gamma_with_its_mean_and_variance) {
  for (const double shape : {0.25, 1.0, 4.0}) {
    RandomSource random(7);
    std::vector<double> draws;
    for (int i = 0; i < 200000; ++i) draws.push_back(random.gamma(shape, 2));
    EXPECT_NEAR(mean(draws), shape * 2, shape * 2 * 0.02) << shape;
    const double variance = standard_deviation(draws) * standard_deviation(draws);
    EXPECT_NEAR(variance, shape * 4, shape * 4 * 0.05) << shape;
  }
}

TEST(RandomSource, integers_are_fair_and_inside) {
  RandomSource random(3);
  std::vector<int> counts(7);
  for (int i = 0; i < 70000; ++i) ++counts[static_cast<size_t>(random.integer(-3, 3) + 3)];
  for (const int count : counts) EXPECT_NEAR(count, 10000, 500);
  EXPECT_EQ(random.integer(5, 5), 5);
}

TEST(RandomSource, shuffle_keeps_all_and_follows_the_seed) {
  std::vector<int> a = {1, 2, 3, 4, 5, 6, 7, 8};
  std::vector<int> b = a;
  RandomSource(1).shuffle(a);
  RandomSource(1).shuffle(b);
  EXPECT_EQ(a, b);
  EXPECT_NE(a, (std::vector<int>{1, 2, 3, 4, 5, 6, 7, 8}));
  std::sort(a.begin(), a.end());
  EXPECT_EQ(a, (std::vector<int>{1, 2, 3, 4, 5, 6, 7, 8}));
}

}  // namespace
}  // namespace reprise::bench
