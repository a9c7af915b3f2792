#include "reprise/bench/offline_charts.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace reprise::bench {
namespace {

using Points = std::vector<std::pair<double, double>>;

TEST(OfflineCharts, show_each_round_of_each_contender) {
  const std::vector<Rounds> contenders = {{"NONE", {10, 12}, {1, 2}, {5, 6}},
                                          {"FULL", {20, 22}, {3, 4}, {7, 8}}};
  const std::vector<Chart> charts = rounds_charts(contenders);
  ASSERT_EQ(charts.size(), 3U);
  EXPECT_EQ(charts[0].series[1].name, "FULL");
  EXPECT_EQ(charts[0].series[1].points, (Points{{1, 20}, {2, 22}}));
  EXPECT_EQ(charts[1].series[0].points, (Points{{1, 1}, {2, 2}}));
  EXPECT_EQ(charts[2].series[1].points, (Points{{1, 7}, {2, 8}}));
}

TEST(OfflineCharts, show_the_distribution_of_latencies) {
  const std::vector<Chart> charts = latency_charts({3, 1, 2, 4}, {0.5, 0.1, 0.2, 0.4});
  EXPECT_EQ(charts[0].series[1].points, (Points{{1, 25}, {2, 50}, {3, 75}, {4, 100}}));
  EXPECT_EQ(charts[0].series[0].points, (Points{{0.1, 25}, {0.2, 50}, {0.4, 75}, {0.5, 100}}));
  EXPECT_EQ(charts[1].series[1].points, (Points{{1, 3}, {2, 1}, {3, 2}, {4, 4}}));
}

TEST(OfflineCharts, add_up_what_has_ended) {
  const std::vector<Chart> charts = throughput_charts({{2.0, 5}, {1.0, 7}});
  EXPECT_EQ(charts[0].series[0].points, (Points{{0, 0}, {1, 1}, {2, 2}}));
  EXPECT_EQ(charts[1].series[0].points, (Points{{0, 0}, {1, 7}, {2, 12}}));
}

TEST(OfflineCharts, count_correct_answers) {
  const std::vector<Answers> contenders = {{"NONE", {true, false, true}}};
  EXPECT_EQ(answers_charts(contenders)[0].series[0].points,
            (Points{{0, 0}, {1, 1}, {2, 1}, {3, 2}}));
}

}  // namespace
}  // namespace reprise::bench
