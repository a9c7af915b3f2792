#include "reprise/cli/startup_log.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

namespace reprise::cli {
namespace {

TEST(StartupBudget, sums_to_the_whole_whatever_the_stages) {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    api::StartupReport report;
    for (unsigned i = 0; i < random() % 9; ++i) {
      report.stages.push_back(
          {.name = "stage", .seconds = static_cast<double>(random() % 1000) / 7e4});
      report.total_seconds += report.stages.back().seconds;
    }
    report.total_seconds += static_cast<double>(random() % 100) / 1e4;
    int sum = 0;
    for (const StartupShare& share : startup_budget(report)) {
      EXPECT_GE(share.tenths_of_percent, 0);
      sum += share.tenths_of_percent;
    }
    EXPECT_EQ(sum, 1000);
  }
}

TEST(StartupBudget, names_the_longest_first_and_what_nobody_measured_last) {
  api::StartupReport report;
  report.stages = {{"a", 1}, {"b", 2}};
  report.total_seconds = 4;
  const std::vector<StartupShare> shares = startup_budget(report);
  ASSERT_EQ(shares.size(), 3U);
  EXPECT_EQ(shares[0].name, "b");
  EXPECT_EQ(shares[0].tenths_of_percent, 500);
  EXPECT_EQ(shares[2].name, "other");
  EXPECT_EQ(shares[2].tenths_of_percent, 250);
}

}  // namespace
}  // namespace reprise::cli
