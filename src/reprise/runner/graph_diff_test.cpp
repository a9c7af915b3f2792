#include "reprise/runner/graph_diff.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reprise/base/error.h"

namespace reprise::runner {
namespace {

ProfiledNode node_of(const std::string& kernel, int32_t layer, double time, uint64_t bytes = 64) {
  ProfiledNode node{.kernel = kernel, .op = op_of_kernel(kernel), .layer = layer};
  node.memory = {{.name = "graph pool", .bytes = bytes, .reads = true},
                 {.name = "graph pool", .bytes = 32, .writes = true}};
  node.in_place = TimeSpread{.median = time, .low = time * 0.95, .high = time * 1.05};
  return node;
}

GraphProfile profile_of(std::vector<ProfiledNode> nodes) {
  GraphProfile profile;
  profile.engine = {{"version", "1"}, {"cpu_isa", "avx2"}};
  profile.mode = cudagraph::CudagraphRuntimeMode::FULL;
  profile.descriptor = {.num_tokens = 8, .num_reqs = 8, .uniform = true};
  profile.num_reqs = 8;
  profile.num_tokens = 8;
  profile.num_replays = 20;
  double sum = 0;
  for (const ProfiledNode& node : nodes) sum += node.in_place->median;
  profile.replay = {.median = sum, .low = sum * 0.98, .high = sum * 1.02};
  profile.eager = profile.replay;
  profile.nodes = std::move(nodes);
  return profile;
}

std::vector<ProfiledNode> three_nodes() {
  return {node_of("rms_norm_bf16_avx2", 0, 10),
          node_of("linear_bf16_avx2", 0, 100),
          node_of("rms_norm_bf16_avx2", 1, 10)};
}

TEST(GraphDiff, finds_nothing_between_equal_profiles) {
  const GraphProfile profile = profile_of(three_nodes());
  const GraphDiff found = diff(profile, profile);
  EXPECT_TRUE(found.has_same_nodes());
  EXPECT_EQ(found.replay, TimeChange::same);
  EXPECT_TRUE(found.engines.empty());
  EXPECT_EQ(verdict_of(profile, profile, found),
            "A and B take the same time within their spread, with the same nodes");
}

TEST(GraphDiff, finds_what_was_inserted_and_pairs_the_others) {
  std::vector<ProfiledNode> nodes = three_nodes();
  nodes.insert(nodes.begin() + 1, node_of("rope_bf16_avx2", 0, 5));
  const GraphProfile a = profile_of(three_nodes());
  const GraphProfile b = profile_of(nodes);
  const GraphDiff found = diff(a, b);
  ASSERT_EQ(found.nodes.size(), 4U);
  EXPECT_EQ(found.nodes[1].a, std::nullopt);
  EXPECT_EQ(found.nodes[1].b, 1U);
  EXPECT_EQ(found.nodes[3].a, 2U);
  EXPECT_EQ(found.nodes[3].b, 3U);
  EXPECT_EQ(found.num_only_in_b, 1U);
  EXPECT_EQ(diff(b, a).num_only_in_a, 1U);
  EXPECT_FALSE(found.has_same_nodes());
}

TEST(GraphDiff, tells_kernels_bytes_and_times_apart) {
  std::vector<ProfiledNode> nodes = three_nodes();
  nodes[0] = node_of("rms_norm_bf16_avx512", 0, 10);
  nodes[1] = node_of("linear_bf16_avx2", 0, 150);
  nodes[2] = node_of("rms_norm_bf16_avx2", 1, 10, 65);
  GraphProfile b = profile_of(nodes);
  b.engine["cpu_isa"] = "avx512";
  const GraphProfile a = profile_of(three_nodes());
  const GraphDiff found = diff(a, b);
  EXPECT_TRUE(found.nodes[0].has_other_kernel);
  EXPECT_FALSE(found.nodes[0].has_other_bytes);
  EXPECT_EQ(found.nodes[1].time, TimeChange::slower);
  EXPECT_TRUE(found.nodes[2].has_other_bytes);
  EXPECT_EQ(found.num_slower, 1U);
  EXPECT_EQ(found.num_faster, 0U);
  EXPECT_THAT(found.engines, ::testing::ElementsAre("cpu_isa: avx2, avx512"));
  EXPECT_EQ(
      verdict_of(a, b, found),
      "B is 42 % slower than A, with other nodes (1 with another kernel, 1 with other bytes)");
  EXPECT_EQ(diff(b, a).replay, TimeChange::faster);
}

TEST(GraphDiff, times_within_their_spread_are_the_same) {
  const TimeSpread a{.median = 100, .low = 90, .high = 110};
  EXPECT_EQ(compare_times(a, {.median = 115, .low = 109, .high = 120}), TimeChange::same);
  EXPECT_EQ(compare_times(a, {.median = 115, .low = 111, .high = 120}), TimeChange::slower);
  EXPECT_EQ(compare_times(a, {.median = 80, .low = 75, .high = 89}), TimeChange::faster);
  const TimeSpread exact{.median = 100, .low = 100, .high = 100};
  EXPECT_EQ(compare_times(exact, {.median = 101, .low = 101, .high = 101}), TimeChange::same);
}

TEST(TimeSpread, has_the_quartiles) {
  EXPECT_EQ(spread_of({7}), (TimeSpread{.median = 7, .low = 7, .high = 7}));
  EXPECT_EQ(spread_of({5, 1, 4, 2, 3}), (TimeSpread{.median = 3, .low = 2, .high = 4}));
}

TEST(GraphProfileJson, keeps_everything) {
  GraphProfile profile = profile_of(three_nodes());
  profile.nodes[0].layer.reset();
  profile.nodes[1].alone = TimeSpread{.median = 1, .low = 0.5, .high = 2};
  profile.nodes[1].memory[0].is_at_most = true;
  profile.nodes[2].in_place.reset();
  profile.nodes[2].is_captured = false;
  profile.memory_gb_s = 12.5;
  profile.padding = {
      .fewest_tokens = 5, .most_tokens = 8, .mean_share = 0.1875, .largest_share = 0.375};
  profile.why_no_node_times = "because";
  for (const bool has_reqs : {true, false}) {
    if (!has_reqs) profile.descriptor.num_reqs.reset();
    const GraphProfile again = profile_from_json(Json::parse(to_json(profile).dump()), "file");
    EXPECT_EQ(again.nodes, profile.nodes);
    EXPECT_EQ(again.descriptor, profile.descriptor);
    EXPECT_EQ(again.padding, profile.padding);
    EXPECT_EQ(to_json(again), to_json(profile));
  }
}

TEST(GraphProfileJson, is_refused_if_it_is_something_else) {
  const auto code_of = [](const Json& json) -> std::string {
    try {
      (void)profile_from_json(json, "file");
    } catch (const FileError& error) {
      return error.code() + ' ' + error.field();
    }
    return "";
  };
  const Json good = to_json(profile_of(three_nodes()));
  EXPECT_EQ(code_of(good), "");
  EXPECT_EQ(code_of(Json::array()), "E_PROFILE format");
  EXPECT_EQ(code_of({{"a", 1}}), "E_PROFILE format");
  Json bad = good;
  bad["version"] = 2;
  EXPECT_EQ(code_of(bad), "E_PROFILE version");
  bad = good;
  bad["key"]["runtime_mode"] = "WHOLE";
  EXPECT_EQ(code_of(bad), "E_PROFILE key");
  for (const auto& [name, value] : good.items()) {
    bad = good;
    bad.erase(name);
    EXPECT_THAT(code_of(bad), ::testing::StartsWith("E_PROFILE")) << name;
  }
  bad = good;
  bad["nodes"][0]["memory"] = 7;
  EXPECT_THAT(code_of(bad), ::testing::StartsWith("E_PROFILE"));
}

TEST(OpOfKernel, leaves_out_types_and_instruction_sets) {
  EXPECT_EQ(op_of_kernel("rms_norm_bf16_avx2"), "rms_norm");
  EXPECT_EQ(op_of_kernel("kv_write_avx512_bf16"), "kv_write");
  EXPECT_EQ(op_of_kernel("copy"), "copy");
  EXPECT_EQ(op_of_kernel("f32_to_bf16_avx2"), "f32_to");
  EXPECT_EQ(op_of_kernel(""), "");
}

TEST(LayerOfMemory, is_the_first_number_of_a_weight_or_the_layer_of_the_cache) {
  EXPECT_EQ(layer_of_memory("model.layers.3.mlp.experts.7.down_proj.weight"), 3);
  EXPECT_EQ(layer_of_memory("KV cache, keys of layer 12"), 12);
  EXPECT_EQ(layer_of_memory("model.norm.weight"), std::nullopt);
  EXPECT_EQ(layer_of_memory("rope_table"), std::nullopt);
  EXPECT_EQ(layer_of_memory(""), std::nullopt);
}

}  // namespace
}  // namespace reprise::runner
