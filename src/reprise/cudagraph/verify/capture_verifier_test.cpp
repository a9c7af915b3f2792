#include "reprise/cudagraph/verify/capture_verifier.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <initializer_list>
#include <string_view>
#include <vector>

#include "reprise/base/error.h"
#include "reprise/cudagraph/verify/verify_graphs.h"

namespace reprise::cudagraph {
namespace {

constexpr uintptr_t kWeight = 1000;
constexpr uintptr_t kTokens = 2000;
constexpr uintptr_t kCache = 3000;
constexpr uintptr_t kPool = 4000;
constexpr uintptr_t kEager = 5000;

NodeUse reads(uintptr_t begin, size_t bytes = 16) {
  return {.begin = begin, .bytes = bytes, .reads = true};
}
NodeUse writes(uintptr_t begin, size_t bytes = 16) {
  return {.begin = begin, .bytes = bytes, .writes = true};
}
NodeUse changes(uintptr_t begin, size_t bytes = 16) {
  return {.begin = begin, .bytes = bytes, .reads = true, .writes = true};
}

/// Addresses are only compared and never accessed, so they may be any numbers.
class CaptureVerifierTest : public ::testing::Test {
 protected:
  CaptureVerifierTest() {
    memory_.add({kWeight, 100, MemoryRole::constant, "layers.0.weight"});
    memory_.add({kCache, 100, MemoryRole::kept, "KV cache, keys of layer 0"});
    memory_.add({kPool, 400, MemoryRole::workspace, "graph pool"});
    memory_.add({kPool + 400, 400, MemoryRole::workspace, "graph pool"});
    memory_.add({kEager, 100, MemoryRole::foreign, "pool of eager work"});
    memory_.add_for_key({kTokens, 16, MemoryRole::staged, "input_ids"});
    verifier_.begin_key();
  }

  void node(std::initializer_list<NodeUse> uses, const char* kernel = "kernel") {
    verifier_.add(
        {.kernel = kernel, .num_blocks = 1, .uses = std::span(uses.begin(), uses.size())});
  }
  [[nodiscard]] const KeyProof& proof() const { return verifier_.proof(); }
  [[nodiscard]] Violation only_violation() const {
    EXPECT_EQ(proof().num_violations, 1U);
    return proof().violations.empty() ? Violation{} : proof().violations.front();
  }

  MemoryMap memory_;
  CaptureVerifier verifier_{memory_};
};

TEST_F(CaptureVerifierTest, a_graph_that_reads_what_it_may_is_proved) {
  node({reads(kTokens), reads(kWeight), writes(kPool)});
  node({reads(kPool), changes(kCache), writes(kPool + 16)});
  node({changes(kPool), reads(kPool + 16)});
  EXPECT_TRUE(proof().is_whole());
  EXPECT_EQ(proof().num_nodes, 3U);
}

TEST_F(CaptureVerifierTest, memory_that_nothing_wrote_is_named_with_node_kernel_and_layer) {
  node({reads(kWeight), writes(kPool)}, "linear");
  node({reads(kPool), reads(kPool + 8, 16), writes(kPool + 100)}, "silu_and_mul");
  const Violation violation = only_violation();
  EXPECT_EQ(violation.rule, GraphRule::reads_defined_memory);
  EXPECT_EQ(violation.node, 1U);
  EXPECT_EQ(violation.kernel, "silu_and_mul");
  EXPECT_EQ(violation.place, "after layers.0.weight");
  EXPECT_EQ(violation.buffer, "graph pool + 16, 8 bytes");
  EXPECT_EQ(describe(violation),
            "rule reads_defined_memory: node 1 (silu_and_mul, after layers.0.weight) reads memory "
            "that no earlier node of the key has written: graph pool + 16, 8 bytes; write this "
            "memory in the capture, or stage it before each step");
}

TEST_F(CaptureVerifierTest, a_node_does_not_read_what_it_writes_itself) {
  node({changes(kPool)});
  EXPECT_EQ(only_violation().rule, GraphRule::reads_defined_memory);
}

TEST_F(CaptureVerifierTest, the_next_key_starts_with_nothing_written) {
  node({writes(kPool)});
  verifier_.begin_key();
  node({reads(kPool)});
  EXPECT_EQ(only_violation().rule, GraphRule::reads_defined_memory);
}

TEST_F(CaptureVerifierTest, eager_work_between_graphs_writes_its_results) {
  verifier_.add_eager_write(kPool, 32);
  node({reads(kPool, 32)});
  EXPECT_TRUE(proof().is_whole());
}

TEST_F(CaptureVerifierTest, weights_and_inputs_are_never_written) {
  node({writes(kWeight)});
  node({changes(kTokens)});
  ASSERT_EQ(proof().num_violations, 2U);
  EXPECT_EQ(proof().violations[0].rule, GraphRule::writes_own_memory);
  EXPECT_EQ(proof().violations[0].problem, "writes a constant");
  EXPECT_EQ(proof().violations[0].place, "with layers.0.weight");
  EXPECT_EQ(proof().violations[1].problem, "writes an input of the step");
}

TEST_F(CaptureVerifierTest, memory_without_a_name_is_a_violation) {
  node({reads(10)});
  EXPECT_EQ(only_violation().rule, GraphRule::uses_known_memory);
  EXPECT_EQ(only_violation().buffer, "16 bytes at 0xa");
}

TEST_F(CaptureVerifierTest, the_part_of_an_input_that_was_not_staged_is_unknown_memory) {
  node({reads(kTokens, 20)});
  EXPECT_EQ(only_violation().rule, GraphRule::uses_known_memory);
  EXPECT_EQ(only_violation().buffer, "4 bytes at 0x7e0");
}

TEST_F(CaptureVerifierTest, memory_of_work_between_the_nodes_is_not_used) {
  node({writes(kEager)});
  EXPECT_EQ(only_violation().rule, GraphRule::keeps_lifetimes_apart);
}

TEST_F(CaptureVerifierTest, a_use_may_cross_regions_and_every_part_counts) {
  node({writes(kPool, 400)});
  node({reads(kPool + 390, 20)});
  EXPECT_EQ(only_violation().buffer, "graph pool + 0, 10 bytes");
}

TEST_F(CaptureVerifierTest, after_a_node_that_does_not_tell_its_uses_reads_are_not_judged) {
  verifier_.add({.kernel = "library", .num_blocks = 1, .tells_uses = false});
  node({reads(kPool)});
  node({writes(kWeight)});
  EXPECT_EQ(proof().num_untold, 1U);
  EXPECT_EQ(only_violation().rule, GraphRule::writes_own_memory);
}

TEST_F(CaptureVerifierTest, only_the_first_violations_are_kept_and_all_are_counted) {
  for (int i = 0; i < 100; ++i) node({reads(kPool)});
  EXPECT_EQ(proof().num_violations, 100U);
  EXPECT_LT(proof().violations.size(), 10U);
}

TEST(MemoryMap, finds_regions_that_overlap_and_takes_tied_weights_as_one) {
  MemoryMap map;
  map.add({100, 50, MemoryRole::constant, "embed_tokens"});
  map.add({100, 50, MemoryRole::constant, "lm_head"});
  map.add({150, 50, MemoryRole::workspace, "graph pool"});
  EXPECT_EQ(map.num_regions(), 2U);
  EXPECT_FALSE(map.find_overlap());
  map.add({120, 10, MemoryRole::constant, "a part of it"});
  map.add({90, 20, MemoryRole::constant, "a stack with it"});
  EXPECT_EQ(map.num_regions(), 2U);
  EXPECT_EQ(map.find(149)->name, "a stack with it");
  EXPECT_EQ(map.find(89), nullptr);
  EXPECT_EQ(map.find(200), nullptr);
  map.add_for_key({190, 50, MemoryRole::staged, "attention plan"});
  const auto overlap = map.find_overlap();
  ASSERT_TRUE(overlap);
  EXPECT_EQ(overlap->first->name, "graph pool");
  EXPECT_EQ(overlap->second->name, "attention plan");
}

TEST(GraphRule, every_rule_has_a_name_of_its_own) {
  std::vector<std::string_view> names;
  for (uint8_t i = 0; i <= static_cast<uint8_t>(kLastGraphRule); ++i) {
    names.push_back(to_string(static_cast<GraphRule>(i)));
    EXPECT_NE(names.back(), "unknown");
    EXPECT_EQ(std::count(names.begin(), names.end(), names.back()), 1);
  }
}

TEST(VerifyGraphs, reads_the_names_of_levels_and_lists_them_for_others) {
  for (const char* name : {"off", "capture", "strict"}) {
    EXPECT_EQ(to_string(parse_verify_graphs("--verify-graphs", name)), name);
  }
  try {
    (void)parse_verify_graphs("--verify-graphs", "always");
    FAIL() << "not refused";
  } catch (const InvalidArgument& error) {
    EXPECT_EQ(std::string(error.what()).find("--verify-graphs always: must be off"), 0U);
  }
}

}  // namespace
}  // namespace reprise::cudagraph
