#include "reprise/bench/traffic.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "reprise/base/error.h"
#include "reprise/bench/statistics.h"

namespace reprise::bench {
namespace {

std::vector<double> gaps_of(const std::vector<double>& times) {
  std::vector<double> gaps = {times[0]};
  for (size_t i = 1; i < times.size(); ++i) gaps.push_back(times[i] - times[i - 1]);
  return gaps;
}

TEST(Traffic, without_a_rate_sends_all_at_once) {
  RandomSource random(0);
  EXPECT_EQ(send_times({}, 3, random), (std::vector<double>{0, 0, 0}));
}

TEST(Traffic, the_last_request_comes_at_count_over_rate_whatever_the_seed) {
  for (const uint64_t seed : {0U, 1U, 99U}) {
    RandomSource random(seed);
    const std::vector<double> times = send_times({.request_rate = 20}, 100, random);
    ASSERT_EQ(times.size(), 100U);
    EXPECT_TRUE(std::is_sorted(times.begin(), times.end()));
    EXPECT_NEAR(times.back(), 5.0, 1e-9);
  }
}

// The coefficient of variation of a gamma variable is 1 / sqrt(shape).
TEST(Traffic, burstiness_sets_how_much_gaps_vary) {
  for (const double burstiness : {0.25, 1.0, 16.0}) {
    RandomSource random(5);
    const std::vector<double> gaps =
        gaps_of(send_times({.request_rate = 50, .burstiness = burstiness}, 50000, random));
    EXPECT_NEAR(mean(gaps), 0.02, 1e-6);
    EXPECT_NEAR(standard_deviation(gaps) / mean(gaps),
                1 / std::sqrt(burstiness),
                0.05 / std::sqrt(burstiness));
  }
  RandomSource random(5);
  const Traffic even{.request_rate = 50, .burstiness = std::numeric_limits<double>::infinity()};
  for (const double gap : gaps_of(send_times(even, 100, random))) EXPECT_NEAR(gap, 0.02, 1e-9);
}

TEST(Traffic, a_ramp_speeds_up) {
  const double even = std::numeric_limits<double>::infinity();
  RandomSource random(0);
  const std::vector<double> linear = gaps_of(send_times({.burstiness = even,
                                                         .ramp_up = RampUp::linear,
                                                         .ramp_up_start_rps = 10,
                                                         .ramp_up_end_rps = 30},
                                                        3,
                                                        random));
  EXPECT_NEAR(linear[0], 1.0 / 10, 1e-12);
  EXPECT_NEAR(linear[1], 1.0 / 20, 1e-12);
  EXPECT_NEAR(linear[2], 1.0 / 30, 1e-12);
  const std::vector<double> exponential = gaps_of(send_times({.burstiness = even,
                                                              .ramp_up = RampUp::exponential,
                                                              .ramp_up_start_rps = 10,
                                                              .ramp_up_end_rps = 40},
                                                             3,
                                                             random));
  EXPECT_NEAR(exponential[1], 1.0 / 20, 1e-12);
}

TEST(Traffic, refuses_what_cannot_be) {
  EXPECT_THROW(check({.request_rate = 0}), InvalidArgument);
  EXPECT_THROW(check({.request_rate = -1}), InvalidArgument);
  EXPECT_THROW(check({.burstiness = 0}), InvalidArgument);
  EXPECT_THROW(check({.request_rate = 5, .ramp_up = RampUp::linear, .ramp_up_end_rps = 3}),
               InvalidArgument);
  EXPECT_THROW(check({.ramp_up = RampUp::linear, .ramp_up_start_rps = 4, .ramp_up_end_rps = 3}),
               InvalidArgument);
  EXPECT_THROW(check({.ramp_up = RampUp::exponential, .ramp_up_end_rps = 3}), InvalidArgument);
  EXPECT_NO_THROW(check({.ramp_up = RampUp::linear, .ramp_up_end_rps = 3}));
}

}  // namespace
}  // namespace reprise::bench
