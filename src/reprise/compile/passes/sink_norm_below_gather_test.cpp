#include "reprise/compile/passes/sink_norm_below_gather.h"

#include <gtest/gtest.h>

#include "tests/support/compile/pass_fixture.h"

namespace reprise::compile {
namespace {

const Pass kSinkNormBelowGather = {"sink_norm_below_gather", sink_norm_below_gather};

TEST(SinkNormBelowGather, norms_only_the_rows_that_are_wanted) {
  expect_rewrites(kSinkNormBelowGather,
                  1,
                  R"(program {
  input %x: bf16[T, 64]
  input %indices: i32[L]
  parameter p0: bf16[64]
  %0: bf16[T, 64] = rms_norm(%x, p0) {epsilon=1e-06}  // model.norm
  %1: bf16[T, 64] = add(%x, %x)
  %2: bf16[L, 64] = gather_rows(%0, %indices)
  return %2, %1
})",
                  R"(program {
  input %x: bf16[T, 64]
  input %indices: i32[L]
  parameter p0: bf16[64]
  %0: bf16[T, 64] = add(%x, %x)
  %1: bf16[L, 64] = gather_rows(%x, %indices)
  %2: bf16[L, 64] = rms_norm(%1, p0) {epsilon=1e-06}  // model.norm
  return %2, %0
})");
}

TEST(SinkNormBelowGather, gathers_both_operands_of_a_sum_that_only_the_norm_uses) {
  expect_rewrites(kSinkNormBelowGather,
                  1,
                  R"(program {
  input %x: bf16[T, 64]
  input %residual: bf16[T, 64]
  input %indices: i32[L]
  parameter p0: bf16[64]
  %0: bf16[T, 64], %1: bf16[T, 64] = fused_add_rms_norm(%x, %residual, p0) {epsilon=1e-06}
  %2: bf16[L, 64] = gather_rows(%0, %indices)
  return %2
})",
                  R"(program {
  input %x: bf16[T, 64]
  input %residual: bf16[T, 64]
  input %indices: i32[L]
  parameter p0: bf16[64]
  %0: bf16[L, 64] = gather_rows(%x, %indices)
  %1: bf16[L, 64] = gather_rows(%residual, %indices)
  %2: bf16[L, 64], %3: bf16[L, 64] = fused_add_rms_norm(%0, %1, p0) {epsilon=1e-06}
  return %2
})");
}

TEST(SinkNormBelowGather, gathers_above_several_norms) {
  expect_rewrites(kSinkNormBelowGather,
                  2,
                  R"(program {
  input %x: bf16[T, 64]
  input %indices: i32[L]
  parameter p0: bf16[64]
  parameter p1: bf16[64]
  %0: bf16[T, 64] = rms_norm(%x, p0) {epsilon=1e-06}
  %1: bf16[T, 64] = rms_norm(%0, p1) {epsilon=1e-06}
  %2: bf16[L, 64] = gather_rows(%1, %indices)
  return %2
})",
                  R"(program {
  input %x: bf16[T, 64]
  input %indices: i32[L]
  parameter p0: bf16[64]
  parameter p1: bf16[64]
  %0: bf16[L, 64] = gather_rows(%x, %indices)
  %1: bf16[L, 64] = rms_norm(%0, p0) {epsilon=1e-06}
  %2: bf16[L, 64] = rms_norm(%1, p1) {epsilon=1e-06}
  return %2
})");
}

TEST(SinkNormBelowGather, leaves_norms_and_sums_with_another_use) {
  expect_leaves(kSinkNormBelowGather, R"(program {
  input %x: bf16[T, 64]
  input %indices: i32[L]
  parameter p0: bf16[64]
  %0: bf16[T, 64] = rms_norm(%x, p0) {epsilon=1e-06}
  %1: bf16[L, 64] = gather_rows(%0, %indices)
  %2: bf16[T, 64], %3: bf16[T, 64] = fused_add_rms_norm(%x, %x, p0) {epsilon=1e-06}
  %4: bf16[L, 64] = gather_rows(%2, %indices)
  %5: bf16[L, 64] = gather_rows(%3, %indices)
  return %0, %1, %4, %5
})");
}

}  // namespace
}  // namespace reprise::compile
