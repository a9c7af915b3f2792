#include "reprise/server/http/access.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "reprise/server/http/api_error.h"

namespace reprise::server {
namespace {

TEST(ApiKeys, accept_whole_keys_only) {
  const ApiKeys keys({"first", "second"});
  EXPECT_EQ(keys.find("Bearer first"), 0U);
  EXPECT_EQ(keys.find("bearer second"), 1U);
  for (const char* wrong : {"",
                            "first",
                            "Bearer ",
                            "Bearer firs",
                            "Bearer firstf",
                            "Bearer firstfirst",
                            "Basic first",
                            "Bearer  first"}) {
    EXPECT_FALSE(keys.find(wrong)) << wrong;
    EXPECT_THROW(keys.check(wrong), ApiError) << wrong;
  }
}

struct Moments {
  double count = 0;
  double mean = 0;
  double squares = 0;  // of the differences from the mean

  void add(double value) {
    ++count;
    const double difference = value - mean;
    mean += difference / count;
    squares += difference * (value - mean);
  }
  [[nodiscard]] double variance_of_mean() const { return squares / (count - 1) / count; }
};

/// Welch's t of the times of two kinds of guesses, taken in a random order.
double welch_t(const ApiKeys& keys, const std::array<std::string, 2>& guesses, int num_samples) {
  std::mt19937 random(1);
  std::vector<std::pair<double, size_t>> times;
  std::string guess;
  size_t num_found = 0;
  for (int i = 0; i < num_samples; ++i) {
    const size_t kind = random() % 2;
    guess = guesses.at(kind);  // at one place in memory
    const auto begin = std::chrono::steady_clock::now();
    for (int repeat = 0; repeat < 8; ++repeat) num_found += keys.find(guess) ? 1 : 0;
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    times.emplace_back(took.count(), kind);
  }
  EXPECT_EQ(num_found, 0U);
  // Interrupts are not part of the function, so the slowest tenth is left out, whatever its kind.
  // Clocks have ticks, so many times are equal; all of these are kept.
  std::ranges::sort(times);
  const double longest = times[times.size() * 9 / 10].first;
  std::erase_if(times, [longest](const auto& time) { return time.first > longest; });
  std::array<Moments, 2> moments;
  for (const auto& [time, kind] : times) moments.at(kind).add(time);
  return (moments[0].mean - moments[1].mean) /
         std::sqrt(moments[0].variance_of_mean() + moments[1].variance_of_mean());
}

TEST(ApiKeys, take_the_same_time_for_right_and_wrong_beginnings) {
  const std::string key = "sk-0123456789abcdefghijklmnopqrstuvwxyz0123456789abcdefghijklmnop";
  const ApiKeys keys({key});
  std::string right_beginning = "Bearer " + key;
  right_beginning.back() = '?';
  std::string wrong_beginning = "Bearer " + key;
  wrong_beginning[7] = '?';
  // A busy machine may disturb one series, but not always in the same direction.
  double least = 1000;
  for (int attempt = 0; attempt < 3 && least >= 4.5; ++attempt) {
    least = std::min(least, std::abs(welch_t(keys, {right_beginning, wrong_beginning}, 100'000)));
  }
  EXPECT_LT(least, 4.5);
}

}  // namespace
}  // namespace reprise::server
