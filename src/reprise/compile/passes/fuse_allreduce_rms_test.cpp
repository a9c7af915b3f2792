#include "reprise/compile/passes/fuse_allreduce_rms.h"

#include <gtest/gtest.h>

#include "tests/support/compile/pass_fixture.h"

namespace reprise::compile {
namespace {

using program::Program;

const Pass kFuseAllreduceRms = {"fuse_allreduce_rms",
                                [](Program& p) { return fuse_allreduce_rms(p); }};

TEST(FuseAllreduceRms, norms_the_sum_over_ranks_with_and_without_a_residual) {
  expect_rewrites(kFuseAllreduceRms,
                  2,
                  R"(program {
  input %x: bf16[T, 64]
  parameter p0: bf16[64]
  parameter p1: bf16[64, 64]
  %0: bf16[T, 64] = all_reduce(%x) {ranks=2}
  %1: bf16[T, 64] = rms_norm(%0, p0) {epsilon=1e-06}  // layers.0
  %2: bf16[T, 64] = linear(%1, p1)
  %3: bf16[T, 64] = all_reduce(%2) {ranks=2}
  %4: bf16[T, 64], %5: bf16[T, 64] = fused_add_rms_norm(%3, %0, p0) {epsilon=1e-05}
  return %4, %5
})",
                  R"(program {
  input %x: bf16[T, 64]
  parameter p0: bf16[64]
  parameter p1: bf16[64, 64]
  %0: bf16[T, 64], %1: bf16[T, 64] = fused_all_reduce_add_rms_norm(%x, none, p0) {epsilon=1e-06, ranks=2}  // layers.0
  %2: bf16[T, 64] = linear(%0, p1)
  %3: bf16[T, 64], %4: bf16[T, 64] = fused_all_reduce_add_rms_norm(%2, %1, p0) {epsilon=1e-05, ranks=2}
  return %3, %4
})");
}

TEST(FuseAllreduceRms, leaves_sums_with_another_use_beside_the_residual) {
  expect_leaves(kFuseAllreduceRms, R"(program {
  input %x: bf16[T, 64]
  parameter p0: bf16[64]
  %0: bf16[T, 64] = all_reduce(%x) {ranks=2}
  %1: bf16[T, 64], %2: bf16[T, 64] = fused_add_rms_norm(%0, %x, p0) {epsilon=1e-05}
  return %0, %1, %2
})");
}

TEST(FuseAllreduceRms, waits_for_no_weight_that_is_computed_later) {
  expect_leaves(kFuseAllreduceRms, R"(program {
  input %x: f32[T, 16]
  input %y: f32[16]
  parameter p0: f32[16]
  %0: f32[T, 16] = all_reduce(%x) {ranks=2}
  %1: f32[16] = add(%y, p0)
  %2: f32[T, 16] = rms_norm(%0, %1) {epsilon=1e-06}
  return %2
})");
}

}  // namespace
}  // namespace reprise::compile
