#include "reprise/compile/passes/fuse_add_rms_norm.h"

#include <gtest/gtest.h>

#include "tests/support/compile/pass_fixture.h"

namespace reprise::compile {
namespace {

const Pass kFuseAddRmsNorm = {"fuse_add_rms_norm", fuse_add_rms_norm};

TEST(FuseAddRmsNorm, computes_a_sum_and_its_norm_in_one_op) {
  expect_rewrites(kFuseAddRmsNorm,
                  1,
                  R"(program {
  input %residual: bf16[T, 64]
  input %x: bf16[T, 64]
  parameter p0: bf16[64]
  parameter p1: bf16[64, 64]
  %0: bf16[T, 64] = add(%residual, %x)
  %1: bf16[T, 64] = linear(%0, p1)
  %2: bf16[T, 64] = rms_norm(%0, p0) {epsilon=1e-06}  // model.norm
  %3: bf16[T, 64] = add(%0, %2)
  return %3, %1
})",
                  R"(program {
  input %residual: bf16[T, 64]
  input %x: bf16[T, 64]
  parameter p0: bf16[64]
  parameter p1: bf16[64, 64]
  %0: bf16[T, 64], %1: bf16[T, 64] = fused_add_rms_norm(%x, %residual, p0) {epsilon=1e-06}  // model.norm
  %2: bf16[T, 64] = linear(%1, p1)
  %3: bf16[T, 64] = add(%1, %0)
  return %3, %2
})");
}

TEST(FuseAddRmsNorm, fuses_a_chain_of_residuals) {
  expect_rewrites(kFuseAddRmsNorm,
                  2,
                  R"(program {
  input %x: f32[T, 64]
  parameter p0: f32[64]
  %0: f32[T, 64] = add(%x, %x)
  %1: f32[T, 64] = rms_norm(%0, p0) {epsilon=1e-05}
  %2: f32[T, 64] = add(%0, %1)
  %3: f32[T, 64] = rms_norm(%2, p0) {epsilon=1e-06}
  return %3
})",
                  R"(program {
  input %x: f32[T, 64]
  parameter p0: f32[64]
  %0: f32[T, 64], %1: f32[T, 64] = fused_add_rms_norm(%x, %x, p0) {epsilon=1e-05}
  %2: f32[T, 64], %3: f32[T, 64] = fused_add_rms_norm(%0, %1, p0) {epsilon=1e-06}
  return %2
})");
}

TEST(FuseAddRmsNorm, fuses_the_first_of_several_norms) {
  expect_rewrites(kFuseAddRmsNorm,
                  1,
                  R"(program {
  input %x: f32[T, 64]
  parameter p0: f32[64]
  parameter p1: f32[64]
  %0: f32[T, 64] = add(%x, %x)
  %1: f32[T, 64] = rms_norm(%0, p0) {epsilon=1e-05}
  %2: f32[T, 64] = rms_norm(%0, p1) {epsilon=1e-05}
  return %1, %2
})",
                  R"(program {
  input %x: f32[T, 64]
  parameter p0: f32[64]
  parameter p1: f32[64]
  %0: f32[T, 64], %1: f32[T, 64] = fused_add_rms_norm(%x, %x, p0) {epsilon=1e-05}
  %2: f32[T, 64] = rms_norm(%1, p1) {epsilon=1e-05}
  return %0, %2
})");
}

TEST(FuseAddRmsNorm, leaves_norms_of_anything_but_a_sum) {
  expect_leaves(kFuseAddRmsNorm, R"(program {
  input %x: f32[T, 64]
  parameter p0: f32[64]
  parameter p1: f32[32]
  %0: f32[T, 64] = add(%x, %x)
  %1: f32[T, 64] = rms_norm(%x, p0) {epsilon=1e-05}
  %2: f32[T, 32] = slice(%0) {dim=1, begin=0, length=32}
  %3: f32[T, 32] = rms_norm(%2, p1) {epsilon=1e-05}
  return %0, %1, %3
})");
}

TEST(FuseAddRmsNorm, waits_for_no_weight_that_is_computed_later) {
  expect_leaves(kFuseAddRmsNorm, R"(program {
  input %x: f32[16]
  input %y: f32[T, 16]
  parameter p0: f32[16]
  %0: f32[T, 16] = add(%y, %y)
  %1: f32[16] = add(%x, p0)
  %2: f32[T, 16] = rms_norm(%0, %1) {epsilon=1e-05}
  return %2
})");
  expect_rewrites(kFuseAddRmsNorm,
                  1,
                  R"(program {
  input %x: f32[16]
  input %y: f32[T, 16]
  parameter p0: f32[16]
  %0: f32[16] = add(%x, p0)
  %1: f32[T, 16] = add(%y, %y)
  %2: f32[T, 16] = rms_norm(%1, %0) {epsilon=1e-05}
  return %2
})",
                  R"(program {
  input %x: f32[16]
  input %y: f32[T, 16]
  parameter p0: f32[16]
  %0: f32[16] = add(%x, p0)
  %1: f32[T, 16], %2: f32[T, 16] = fused_add_rms_norm(%y, %y, %0) {epsilon=1e-05}
  return %1
})");
}

}  // namespace
}  // namespace reprise::compile
