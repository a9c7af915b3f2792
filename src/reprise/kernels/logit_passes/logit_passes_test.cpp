#include "reprise/kernels/logit_passes/logit_passes.h"

#include <array>
#include <cmath>
#include <limits>
#include <random>

#include "reprise/device/cpu/cpu_features.h"
#include "tests/support/kernels/kernel_test_fixture.h"

namespace reprise::kernels {
namespace {

constexpr float kInfiniteLogit = std::numeric_limits<float>::infinity();

class LogitPassesTest : public testing::TestWithParam<Isa> {
 protected:
  [[nodiscard]] static LogitPasses passes() { return LogitPasses(kernel_table(GetParam())); }

  /// Lengths close to the sizes of lanes, parts and stretches of parts.
  static std::vector<size_t> sizes() {
    return {1, 2, 3, 15, 16, 17, 31, 63, 64, 65, 127, 128, 129, 2047, 2048, 2049, 5003};
  }
  std::vector<float> random_logits(size_t size) {
    std::normal_distribution<float> normal(1.0F, 3.0F);
    std::vector<float> logits(size);
    for (float& logit : logits) logit = random_() % 7 == 0 ? -kInfiniteLogit : normal(random_);
    logits[random_() % size] = 2.5F;
    return logits;
  }
  static size_t num_parts(size_t size) { return (size + kLogitPart - 1) / kLogitPart; }

  std::mt19937 random_{17};
};

TEST_P(LogitPassesTest, find_the_largest_logit_of_each_part) {
  for (const size_t size : sizes()) {
    std::vector<float> logits = random_logits(size);
    // A zero read after the end of the row would be larger.
    for (float& logit : logits) logit -= 100.0F;
    std::vector<float> maxima(num_parts(size));
    EXPECT_TRUE(passes().find_maxima(logits, maxima));
    for (size_t part = 0; part < maxima.size(); ++part) {
      const auto begin = logits.begin() + static_cast<ptrdiff_t>(part * kLogitPart);
      const auto end = std::min(begin + kLogitPart, logits.end());
      EXPECT_EQ(maxima[part], *std::max_element(begin, end)) << size << " " << part;
    }
  }
}

TEST_P(LogitPassesTest, notice_nan_and_infinity_at_every_place) {
  for (const size_t size : {1, 5, 16, 17, 64, 70, 129}) {
    std::vector<float> logits = random_logits(size);
    std::vector<float> maxima(num_parts(size));
    for (size_t i = 0; i < size; ++i) {
      const float kept = logits[i];
      for (const float bad : {kInfiniteLogit, std::numeric_limits<float>::quiet_NaN()}) {
        logits[i] = bad;
        EXPECT_FALSE(passes().find_maxima(logits, maxima)) << size << " " << i;
      }
      for (const float good : {-kInfiniteLogit, std::numeric_limits<float>::max()}) {
        logits[i] = good;
        EXPECT_TRUE(passes().find_maxima(logits, maxima)) << size << " " << i;
      }
      logits[i] = kept;
    }
  }
}

TEST_P(LogitPassesTest, add_the_weights_of_each_part) {
  for (const size_t size : sizes()) {
    const std::vector<float> logits = random_logits(size);
    std::vector<float> maxima(num_parts(size));
    ASSERT_TRUE(passes().find_maxima(logits, maxima));
    const float max = *std::max_element(maxima.begin(), maxima.end());
    for (const float least : {-kInfiniteLogit, 1.0F, max}) {
      std::vector<float> sums(num_parts(size), -1.0F);
      passes().sum_parts({.logits = logits.data(),
                          .size = static_cast<int64_t>(size),
                          .maxima = maxima.data(),
                          .sums = sums.data(),
                          .max = max,
                          .inverse_temperature = 0.7F,
                          .least = least});
      std::vector<double> want(sums.size(), 0.0);
      for (size_t i = 0; i < size; ++i) {
        if (logits[i] < least) continue;
        want[i / kLogitPart] += std::exp((static_cast<double>(logits[i]) - max) * 0.7);
      }
      for (size_t part = 0; part < sums.size(); ++part) {
        EXPECT_NEAR(sums[part], want[part], 2e-6 * want[part]) << size << " " << part;
      }
    }
  }
}

TEST_P(LogitPassesTest, add_the_weights_above_each_level) {
  for (const size_t size : sizes()) {
    const std::vector<float> logits = random_logits(size);
    std::vector<float> maxima(num_parts(size));
    ASSERT_TRUE(passes().find_maxima(logits, maxima));
    const float max = *std::max_element(maxima.begin(), maxima.end());
    std::array<double, kLogitLevels> masses{};
    LogitMassArguments arguments = {.logits = logits.data(),
                                    .size = static_cast<int64_t>(size),
                                    .maxima = maxima.data(),
                                    .masses = masses.data(),
                                    .levels = {max, 4, 3, 1, 0, -1, -5, -kInfiniteLogit},
                                    .max = max,
                                    .inverse_temperature = 1.3F};
    passes().sum_above(arguments);
    for (int level = 0; level < kLogitLevels; ++level) {
      double want = 0.0;
      for (const float logit : logits) {
        if (logit < arguments.levels[level]) continue;
        want += std::exp((static_cast<double>(logit) - max) * 1.3);
      }
      EXPECT_NEAR(masses[static_cast<size_t>(level)], want, 4e-6 * want) << size << " " << level;
    }
  }
}

TEST_P(LogitPassesTest, give_a_weight_the_bits_that_are_added) {
  std::vector<float> logits(1);
  for (float logit = -120.0F; logit < 3.0F; logit += 0.37F) {
    logits[0] = logit;
    float sum = 0.0F;
    const float maximum = logit;
    passes().sum_parts({.logits = logits.data(),
                        .size = 1,
                        .maxima = &maximum,
                        .sums = &sum,
                        .max = 3.0F,
                        .inverse_temperature = 0.9F,
                        .least = -kInfiniteLogit});
    float weight = -1.0F;
    passes().weigh(logits, 3.0F, 0.9F, {&weight, 1});
    EXPECT_EQ(weight, sum) << logit;
  }
}

INSTANTIATE_TEST_SUITE_P(AllIsas,
                         LogitPassesTest,
                         testing::ValuesIn(supported_isas(device::detect_cpu_features())),
                         [](const auto& test) { return std::string(isa_name(test.param)); });

}  // namespace
}  // namespace reprise::kernels
