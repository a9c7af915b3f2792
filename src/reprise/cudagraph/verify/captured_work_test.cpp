#include "reprise/cudagraph/verify/captured_work.h"

#include <gtest/gtest.h>

#include <array>

namespace reprise::cudagraph {
namespace {

const std::array kUses = {NodeUse{.begin = 100, .bytes = 8, .reads = true}};
const std::array kOtherUses = {NodeUse{.begin = 108, .bytes = 8, .reads = true}};
const std::array kArgs = {std::byte{1}, std::byte{2}};
const std::array kOtherArgs = {std::byte{1}, std::byte{3}};

CapturedWork work_of(std::initializer_list<CapturedNode> nodes) {
  CapturedWork work;
  for (const CapturedNode& node : nodes) work.add(node);
  return work;
}

CapturedNode node(std::string_view kernel = "add", uint32_t blocks = 2) {
  return {.kernel = kernel, .num_blocks = blocks, .uses = kUses, .args = kArgs};
}

std::string problem(const CapturedNode& first, const CapturedNode& second) {
  const auto violation = work_of({node(), first}).find_difference(work_of({node(), second}));
  if (!violation) return "";
  EXPECT_EQ(violation->rule, GraphRule::depends_on_no_batch);
  EXPECT_EQ(violation->node, 1U);
  return violation->problem;
}

TEST(CapturedWork, two_captures_with_equal_nodes_have_no_difference) {
  EXPECT_EQ(problem(node(), node()), "");
}

TEST(CapturedWork, a_node_that_depends_on_the_batch_is_named_with_what_differs) {
  EXPECT_EQ(problem(node(), node("multiply")), "is multiply for another batch");
  EXPECT_EQ(problem(node(), node("add", 3)), "has 2 blocks, and 3 for another batch");
  CapturedNode other = node();
  other.uses = kOtherUses;
  EXPECT_EQ(problem(node(), other), "uses other memory for another batch");
  other = node();
  other.args = kOtherArgs;
  EXPECT_EQ(problem(node(), other),
            "has other arguments for another batch, first in byte 1: 0x02 and 0x03");
  other.args = std::span(kArgs).first(1);
  EXPECT_EQ(problem(node(), other), "has 2 bytes of arguments, and 1 for another batch");
}

TEST(CapturedWork, a_missing_node_is_a_difference) {
  const auto violation = work_of({node(), node()}).find_difference(work_of({node()}));
  ASSERT_TRUE(violation);
  EXPECT_EQ(violation->problem, "one batch gives 2 nodes, another gives 1");
}

}  // namespace
}  // namespace reprise::cudagraph
