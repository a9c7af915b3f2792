#include "reprise/compile/passes/eliminate_dead_code.h"

#include <gtest/gtest.h>

#include "tests/support/compile/pass_fixture.h"

namespace reprise::compile {
namespace {

const Pass kEliminateDeadCode = {"eliminate_dead_code", eliminate_dead_code};

TEST(EliminateDeadCode, takes_out_what_no_result_needs) {
  expect_rewrites(kEliminateDeadCode,
                  3,
                  R"(program {
  input %x: f32[T, 64]
  input %unused: i32[T]
  parameter p0: f32[64]
  parameter p1: f32[32, 64]
  %0: f32[T, 64] = rms_norm(%x, p0) {epsilon=1e-05}
  %1: f32[T, 32] = linear(%0, p1)
  %2: f32[T, 64] = add(%x, %x)
  %3: f32[T, 32] = silu_and_mul(%2)
  %4: f32[T, 32] = slice(%2) {dim=1, begin=0, length=32}
  return %4
})",
                  R"(program {
  input %x: f32[T, 64]
  input %unused: i32[T]
  parameter p0: f32[64]
  parameter p1: f32[32, 64]
  %0: f32[T, 64] = add(%x, %x)
  %1: f32[T, 32] = slice(%0) {dim=1, begin=0, length=32}
  return %1
})");
}

TEST(EliminateDeadCode, keeps_all_results_of_an_op_with_one_that_is_needed) {
  expect_leaves(kEliminateDeadCode, R"(program {
  input %q: f32[T, 2, 16]
  input %positions: i32[T]
  parameter p0: f32[64, 16]
  %0: f32[T, 2, 16], %1: f32[T, 2, 16] = rope(%q, %q, %positions, p0)
  return %1
})");
}

TEST(EliminateDeadCode, keeps_writes_and_what_they_write) {
  expect_rewrites(kEliminateDeadCode,
                  2,
                  R"(program {
  input %q: f32[T, 1, 16]
  input %slots: i32[T]
  input %starts: i32[R+1]
  input %lens: i32[R]
  input %blocks: i32[R, 4]
  parameter p0: f32[16]
  state s0: f32[9, 1, 16, 16]
  state s1: f32[9, 1, 16, 16]
  %0: f32[T, 1, 16] = rms_norm(%q, p0) {epsilon=1e-05}
  %1: s0, %2: s1 = kv_write(%0, %q, s0, s1, %slots)
  %3: f32[T, 1, 16] = empty()
  %4: f32[T, 1, 16] = attention(%q, %1, %2, %starts, %lens, %blocks, %3) {scale=0.25}
  %5: s0, %6: s1 = kv_write(%q, %q, %1, %2, %slots)
  return %q
  keep %5, %6
})",
                  R"(program {
  input %q: f32[T, 1, 16]
  input %slots: i32[T]
  input %starts: i32[R+1]
  input %lens: i32[R]
  input %blocks: i32[R, 4]
  parameter p0: f32[16]
  state s0: f32[9, 1, 16, 16]
  state s1: f32[9, 1, 16, 16]
  %0: f32[T, 1, 16] = rms_norm(%q, p0) {epsilon=1e-05}
  %1: s0, %2: s1 = kv_write(%0, %q, s0, s1, %slots)
  %3: s0, %4: s1 = kv_write(%q, %q, %1, %2, %slots)
  return %q
  keep %3, %4
})");
}

}  // namespace
}  // namespace reprise::compile
