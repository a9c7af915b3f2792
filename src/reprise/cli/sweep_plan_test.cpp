#include "reprise/cli/sweep_plan.h"

#include <gtest/gtest.h>

#include "reprise/base/error.h"

namespace reprise::cli {
namespace {

using Words = std::vector<std::string>;

TEST(SplitWords, as_a_shell_cuts_them) {
  EXPECT_EQ(split_words("x", "  a b\t'c d' \"e \\\" f\" g\\ h ''"),
            (Words{"a", "b", "c d", "e \" f", "g h", ""}));
  EXPECT_EQ(split_words("x", "-cc '{\"a\": 1}'"), (Words{"-cc", "{\"a\": 1}"}));
  EXPECT_TRUE(split_words("x", "  ").empty());
  EXPECT_THROW(static_cast<void>(split_words("x", "a 'b")), InvalidArgument);
}

TEST(SweepPoints, members_become_options) {
  const auto points = parse_sweep_points(
      "x", R"([{"max_num_seqs": 8, "enforce_eager": true, "enable_chunked_prefill": false},
               {"compilation_config": {"cudagraph_mode": "FULL"}, "dtype": "float32"}])");
  ASSERT_EQ(points.size(), 2U);
  EXPECT_EQ(points[0].arguments,
            (Words{"--max-num-seqs", "8", "--enforce-eager", "--no-enable-chunked-prefill"}));
  EXPECT_EQ(points[0].name, "max_num_seqs=8 enforce_eager=true enable_chunked_prefill=false");
  EXPECT_EQ(points[1].arguments,
            (Words{"--compilation-config", R"({"cudagraph_mode":"FULL"})", "--dtype", "float32"}));
}

TEST(SweepPoints, may_have_names) {
  const auto points = parse_sweep_points("x", R"({"slow": {"request_rate": 1.5}, "fast": {}})");
  ASSERT_EQ(points.size(), 2U);
  EXPECT_EQ(points[0].name, "slow");
  EXPECT_EQ(points[0].arguments, (Words{"--request-rate", "1.5"}));
  EXPECT_TRUE(points[1].arguments.empty());
  EXPECT_EQ(parse_sweep_points("x", R"([{"_benchmark_name": "b", "k": 1}])")[0].name, "b");
}

TEST(SweepPoints, nothing_is_one_point_and_nonsense_is_refused) {
  ASSERT_EQ(parse_sweep_points("x", "").size(), 1U);
  EXPECT_THROW(static_cast<void>(parse_sweep_points("x", "3")), InvalidArgument);
  EXPECT_THROW(static_cast<void>(parse_sweep_points("x", "[]")), InvalidArgument);
  EXPECT_THROW(static_cast<void>(parse_sweep_points("x", "[1]")), InvalidArgument);
  EXPECT_THROW(static_cast<void>(parse_sweep_points("x", "nowhere.json")), InvalidArgument);
}

}  // namespace
}  // namespace reprise::cli
