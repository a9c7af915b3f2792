#include "reprise/compile/passes/parallelize_sequence.h"

#include <gtest/gtest.h>

#include "tests/support/compile/pass_fixture.h"

namespace reprise::compile {
namespace {

Pass pass_of_rank(std::optional<int64_t> rank) {
  return {"parallelize_sequence",
          [rank](program::Program& program) { return parallelize_sequence(program, rank); }};
}

const Pass kParallelizeSequence = pass_of_rank({});

TEST(ParallelizeSequence, norms_the_rows_of_each_rank_between_products) {
  expect_rewrites(kParallelizeSequence,
                  2,
                  R"(program {
  input %x: bf16[2*T, 64]
  parameter p0: bf16[64]
  parameter p1: bf16[64, 64]
  %0: bf16[2*T, 64] = all_reduce(%x) {ranks=2}
  %1: bf16[2*T, 64] = rms_norm(%0, p0) {epsilon=1e-06}
  %2: bf16[2*T, 64] = linear(%1, p1)
  %3: bf16[2*T, 64] = all_reduce(%2) {ranks=2}
  %4: bf16[2*T, 64], %5: bf16[2*T, 64] = fused_add_rms_norm(%3, %0, p0) {epsilon=1e-06}
  return %4
})",
                  R"(program {
  input %x: bf16[2*T, 64]
  parameter p0: bf16[64]
  parameter p1: bf16[64, 64]
  %0: bf16[T, 64] = reduce_scatter(%x) {ranks=2}
  %1: bf16[T, 64] = rms_norm(%0, p0) {epsilon=1e-06}
  %2: bf16[2*T, 64] = all_gather(%1) {ranks=2}
  %3: bf16[2*T, 64] = linear(%2, p1)
  %4: bf16[T, 64] = reduce_scatter(%3) {ranks=2}
  %5: bf16[T, 64], %6: bf16[T, 64] = fused_add_rms_norm(%4, %0, p0) {epsilon=1e-06}
  %7: bf16[2*T, 64] = all_gather(%5) {ranks=2}
  return %7
})");
}

constexpr const char* kWholeResidual = R"(program {
  input %x: bf16[2*T, 64]
  input %y: bf16[2*T, 64]
  parameter p0: bf16[64]
  %0: bf16[2*T, 64] = all_reduce(%x) {ranks=2}
  %1: bf16[2*T, 64], %2: bf16[2*T, 64] = fused_add_rms_norm(%0, %y, p0) {epsilon=1e-06}
  return %1
})";

TEST(ParallelizeSequence, cuts_a_whole_residual_to_the_rows_of_the_rank) {
  expect_rewrites(pass_of_rank(1), 1, kWholeResidual, R"(program {
  input %x: bf16[2*T, 64]
  input %y: bf16[2*T, 64]
  parameter p0: bf16[64]
  %0: bf16[T, 64] = reduce_scatter(%x) {ranks=2}
  %1: bf16[T, 64] = slice(%y) {dim=0, begin=T, length=T}
  %2: bf16[T, 64], %3: bf16[T, 64] = fused_add_rms_norm(%0, %1, p0) {epsilon=1e-06}
  %4: bf16[2*T, 64] = all_gather(%2) {ranks=2}
  return %4
})");
}

TEST(ParallelizeSequence, keeps_a_whole_residual_without_knowing_the_rank) {
  expect_rewrites(kParallelizeSequence, 0, kWholeResidual, kWholeResidual);
}

TEST(ParallelizeSequence, gathers_sums_that_are_used_elsewhere) {
  expect_rewrites(kParallelizeSequence,
                  1,
                  R"(program {
  input %x: bf16[2*T, 64]
  parameter p0: bf16[64]
  %0: bf16[2*T, 64] = all_reduce(%x) {ranks=2}
  %1: bf16[2*T, 64] = rms_norm(%0, p0) {epsilon=1e-06}
  %2: bf16[2*T, 32] = silu_and_mul(%0)
  return %1, %2
})",
                  R"(program {
  input %x: bf16[2*T, 64]
  parameter p0: bf16[64]
  %0: bf16[T, 64] = reduce_scatter(%x) {ranks=2}
  %1: bf16[2*T, 64] = all_gather(%0) {ranks=2}
  %2: bf16[T, 64] = rms_norm(%0, p0) {epsilon=1e-06}
  %3: bf16[2*T, 64] = all_gather(%2) {ranks=2}
  %4: bf16[2*T, 32] = silu_and_mul(%1)
  return %3, %4
})");
}

TEST(ParallelizeSequence, leaves_rows_that_the_ranks_do_not_divide) {
  expect_leaves(kParallelizeSequence, R"(program {
  input %x: bf16[T, 64]
  input %y: bf16[2*T+1, 64]
  parameter p0: bf16[64]
  %0: bf16[T, 64] = all_reduce(%x) {ranks=2}
  %1: bf16[T, 64] = rms_norm(%0, p0) {epsilon=1e-06}
  %2: bf16[2*T+1, 64] = all_reduce(%y) {ranks=2}
  %3: bf16[2*T+1, 64] = rms_norm(%2, p0) {epsilon=1e-06}
  return %1, %3
})");
}

TEST(ParallelizeSequence, leaves_sums_with_a_residual_that_every_rank_has_whole) {
  expect_leaves(kParallelizeSequence, R"(program {
  input %x: bf16[2*T, 64]
  input %residual: bf16[2*T, 64]
  parameter p0: bf16[64]
  %0: bf16[2*T, 64] = all_reduce(%x) {ranks=2}
  %1: bf16[2*T, 64], %2: bf16[2*T, 64] = fused_add_rms_norm(%0, %residual, p0) {epsilon=1e-06}
  return %1, %2
})");
}

}  // namespace
}  // namespace reprise::compile
