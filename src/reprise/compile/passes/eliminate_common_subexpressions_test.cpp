#include "reprise/compile/passes/eliminate_common_subexpressions.h"

#include <gtest/gtest.h>

#include "tests/support/compile/pass_fixture.h"

namespace reprise::compile {
namespace {

const Pass kEliminateCommonSubexpressions = {"eliminate_common_subexpressions",
                                             eliminate_common_subexpressions};

TEST(EliminateCommonSubexpressions, computes_equal_values_once) {
  expect_rewrites(kEliminateCommonSubexpressions,
                  3,
                  R"(program {
  input %x: f32[T, 64]
  parameter p0: f32[64]
  parameter p1: f32[64, 64]
  %0: f32[T, 64] = rms_norm(%x, p0) {epsilon=1e-05}
  %1: f32[T, 64] = rms_norm(%x, p0) {epsilon=1e-05}
  %2: f32[T, 64] = linear(%0, p1)
  %3: f32[T, 64] = linear(%1, p1)
  %4: f32[T, 64] = add(%2, %3)
  %5: f32[T, 64] = add(%3, %2)
  return %4, %5
})",
                  R"(program {
  input %x: f32[T, 64]
  parameter p0: f32[64]
  parameter p1: f32[64, 64]
  %0: f32[T, 64] = rms_norm(%x, p0) {epsilon=1e-05}
  %1: f32[T, 64] = linear(%0, p1)
  %2: f32[T, 64] = add(%1, %1)
  return %2, %2
})");
}

TEST(EliminateCommonSubexpressions, merges_all_results_of_an_op) {
  expect_rewrites(kEliminateCommonSubexpressions,
                  1,
                  R"(program {
  input %q: f32[T, 2, 16]
  input %positions: i32[T]
  parameter p0: f32[64, 16]
  %0: f32[T, 2, 16], %1: f32[T, 2, 16] = rope(%q, %q, %positions, p0)
  %2: f32[T, 2, 16], %3: f32[T, 2, 16] = rope(%q, %q, %positions, p0)
  return %0, %3
})",
                  R"(program {
  input %q: f32[T, 2, 16]
  input %positions: i32[T]
  parameter p0: f32[64, 16]
  %0: f32[T, 2, 16], %1: f32[T, 2, 16] = rope(%q, %q, %positions, p0)
  return %0, %1
})");
}

TEST(EliminateCommonSubexpressions, keeps_values_that_differ_in_op_attribute_operand_or_order) {
  expect_leaves(kEliminateCommonSubexpressions, R"(program {
  input %x: f32[T, 64]
  input %y: f32[T, 64]
  parameter p0: f32[64]
  parameter p1: f32[64]
  %0: f32[T, 64] = rms_norm(%x, p0) {epsilon=1e-05}
  %1: f32[T, 64] = rms_norm(%x, p0) {epsilon=1e-06}
  %2: f32[T, 64] = rms_norm(%x, p1) {epsilon=1e-05}
  %3: f32[T, 64] = add(%x, %y)
  %4: f32[T, 64] = add(%y, %x)
  %5: f32[T, 32] = slice(%x) {dim=1, begin=0, length=32}
  %6: f32[T, 32] = slice(%x) {dim=1, begin=32, length=32}
  return %0, %1, %2, %3, %4, %5, %6
})");
}

// Three things must not be merged: the second write, the separate memory for two attentions, and
// reads of a state before and after a write.
TEST(EliminateCommonSubexpressions, never_merges_effects_or_memory) {
  expect_leaves(kEliminateCommonSubexpressions, R"(program {
  input %q: f32[T, 1, 16]
  input %slots: i32[T]
  input %starts: i32[R+1]
  input %lens: i32[R]
  input %blocks: i32[R, 4]
  state s0: f32[9, 1, 16, 16]
  state s1: f32[9, 1, 16, 16]
  %0: s0, %1: s1 = kv_write(%q, %q, s0, s1, %slots)
  %2: f32[T, 1, 16] = empty()
  %3: f32[T, 1, 16] = attention(%q, %0, %1, %starts, %lens, %blocks, %2) {scale=0.25}
  %4: f32[T, 1, 16] = empty()
  %5: f32[T, 1, 16] = attention(%q, %0, %1, %starts, %lens, %blocks, %4) {scale=0.25}
  %6: s0, %7: s1 = kv_write(%q, %q, %0, %1, %slots)
  %8: f32[T, 1, 16] = empty()
  %9: f32[T, 1, 16] = attention(%q, %6, %7, %starts, %lens, %blocks, %8) {scale=0.25}
  return %3, %5, %9
  keep %6, %7
})");
}

}  // namespace
}  // namespace reprise::compile
