#include "reprise/cli/graph_profile_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

namespace reprise::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

runner::ProfiledNode node_of(const std::string& op, std::optional<int32_t> layer, double time) {
  runner::ProfiledNode node{.kernel = op + "_bf16_avx2", .op = op, .layer = layer};
  node.memory = {{.name = "w", .bytes = 1'000'000, .reads = true},
                 {.name = "graph pool", .bytes = 1000, .writes = true}};
  node.in_place = runner::TimeSpread{.median = time, .low = time, .high = time};
  node.alone = node.in_place;
  return node;
}

/// A decoder with an op that has a long name. The layer `slow` takes twice the time of the others.
runner::GraphProfile profile_of(int32_t num_layers, int32_t slow = -1) {
  runner::GraphProfile profile;
  profile.engine = {{"model", "a-model-with-a-long-name-of-its-own-and-of-its-maker"},
                    {"device", "AMD EPYC 9354 32-Core Processor, 32 threads, 2 NUMA nodes"},
                    {"cpu_isa", "avx512_bf16"}};
  profile.mode = cudagraph::CudagraphRuntimeMode::FULL;
  profile.descriptor = {.num_tokens = 2048,
                        .num_reqs = 1024,
                        .uniform = true,
                        .has_lora = true,
                        .num_active_loras = 64};
  profile.num_reqs = 1024;
  profile.num_tokens = 2048;
  profile.num_replays = 20;
  profile.memory_gb_s = 10;
  profile.nodes.push_back(node_of("embedding", std::nullopt, 1));
  for (int32_t layer = 0; layer < num_layers; ++layer) {
    const double times = layer == slow ? 2 : 1;
    profile.nodes.push_back(node_of("rms_norm", layer, 10 * times));
    profile.nodes.push_back(node_of("linear_rope_kv_write_with_a_long_name", layer, 200 * times));
  }
  profile.nodes.push_back(node_of("linear", std::nullopt, 150));
  profile.replay = {.median = 12'345.6, .low = 11'000, .high = 13'000};
  profile.eager = {.median = 20'000, .low = 19'000, .high = 21'000};
  profile.padding = {
      .fewest_tokens = 1026, .most_tokens = 2048, .mean_share = 0.25, .largest_share = 0.5};
  return profile;
}

size_t longest_line(const std::string& text) {
  size_t longest = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) longest = std::max(longest, line.size());
  return longest;
}

TEST(ProfileText, fits_80_columns_in_every_form) {
  const runner::GraphProfile profile = profile_of(30, 3);
  EXPECT_LE(longest_line(profile_text(profile, false)), 80U) << profile_text(profile, false);
  EXPECT_LE(longest_line(profile_text(profile, true)), 80U) << profile_text(profile, true);
  EXPECT_LE(longest_line(profile_list_head() + profile_list_line(profile)), 80U);
  runner::GraphProfile other = profile_of(29);
  other.nodes[4].kernel = "linear_rope_kv_write_with_a_long_name_bf16_avx512_bf16";
  other.nodes[6].memory[0].bytes = 7;
  for (const bool lists_nodes : {false, true}) {
    const std::string text = diff_text(profile, other, runner::diff(profile, other), lists_nodes);
    EXPECT_LE(longest_line(text), 80U) << text;
  }
}

TEST(ProfileText, says_how_much_time_each_op_takes_and_how_near_that_is_to_the_roof) {
  const std::string text = profile_text(profile_of(2), false);
  EXPECT_THAT(text, HasSubstr("the graph saves 38 %"));
  EXPECT_THAT(text, HasSubstr("padding is 25 % of the rows on\n          average, 50 % at most"));
  // Two nodes of 1,001,000 bytes: 200.2 us at 10 GB/s, in 400 of 571 us.
  EXPECT_THAT(text, HasSubstr("  2  400.0 us   70 %  ###########    1.9 MiB  50 %\n"));
  EXPECT_LT(text.find("linear_rope"), text.find("rms_norm"));
}

TEST(ProfileText, sums_up_more_layers_than_a_screen_holds_and_names_the_one_that_differs) {
  const std::string text = profile_text(profile_of(40, 17), false);
  EXPECT_THAT(text, HasSubstr("\n17 "));
  EXPECT_THAT(text, Not(HasSubstr("\n16 ")));
  EXPECT_THAT(text, HasSubstr("39 more, 210.0 us each"));
}

TEST(ProfileText, has_no_times_where_nodes_have_none) {
  runner::GraphProfile profile = profile_of(2);
  for (runner::ProfiledNode& node : profile.nodes) {
    node.in_place.reset();
    node.alone.reset();
  }
  profile.memory_gb_s.reset();
  profile.why_no_node_times = "this device runs a graph as a whole";
  const std::string text = profile_text(profile, false);
  EXPECT_THAT(text, HasSubstr("runs a graph as a whole"));
  EXPECT_THAT(text, Not(HasSubstr("0.0 us")));
  EXPECT_THAT(text, Not(HasSubstr("GB/s")));
}

TEST(DiffText, begins_with_the_verdict_and_lists_what_differs) {
  const runner::GraphProfile a = profile_of(2);
  runner::GraphProfile b = profile_of(2, 1);
  b.replay = {.median = 20'000, .low = 19'000, .high = 21'000};
  const std::string text = diff_text(a, b, runner::diff(a, b), false);
  EXPECT_THAT(text, ::testing::StartsWith("B is 62 % slower than A, with the same nodes\n"));
  EXPECT_THAT(text, HasSubstr("2 slower in B, 0 faster"));
  EXPECT_THAT(text, HasSubstr("200.0 us -> 400.0 us (+100 %)"));
}

}  // namespace
}  // namespace reprise::cli
