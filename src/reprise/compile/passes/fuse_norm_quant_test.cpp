#include "reprise/compile/passes/fuse_norm_quant.h"

#include <gtest/gtest.h>

#include "tests/support/compile/pass_fixture.h"

namespace reprise::compile {
namespace {

using program::Program;

const Pass kFuseNormQuant = {"fuse_norm_quant", [](Program& p) { return fuse_norm_quant(p); }};

TEST(FuseNormQuant, stores_no_norm_of_which_only_the_quantised_form_is_used) {
  expect_rewrites(kFuseNormQuant,
                  1,
                  R"(program {
  input %x: bf16[T, 64]
  parameter p0: bf16[64]
  parameter p1: i8[64, 64]
  parameter p2: f32[64]
  %0: bf16[T, 64] = rms_norm(%x, p0) {epsilon=1e-06}  // input_layernorm
  %1: i8[T, 64], %2: f32[T] = quantize_per_token(%0) {dtype=i8}
  %3: bf16[T, 64] = scaled_linear(%1, %2, p1, p2) {dtype=bf16}
  return %3
})",
                  R"(program {
  input %x: bf16[T, 64]
  parameter p0: bf16[64]
  parameter p1: i8[64, 64]
  parameter p2: f32[64]
  %0: i8[T, 64], %1: f32[T] = rms_norm_quant(%x, p0) {epsilon=1e-06, dtype=i8}  // input_layernorm
  %2: bf16[T, 64] = scaled_linear(%0, %1, p1, p2) {dtype=bf16}
  return %2
})");
}

TEST(FuseNormQuant, keeps_the_sum_that_was_normed) {
  expect_rewrites(kFuseNormQuant,
                  1,
                  R"(program {
  input %x: bf16[T, 64]
  input %residual: bf16[T, 64]
  parameter p0: bf16[64]
  %0: bf16[T, 64], %1: bf16[T, 64] = fused_add_rms_norm(%x, %residual, p0) {epsilon=1e-06}
  %2: bf16[T, 32] = silu_and_mul(%1)
  %3: f8e4m3[T, 64], %4: f32[T] = quantize_per_token(%0) {dtype=f8e4m3}
  return %1, %2, %3, %4
})",
                  R"(program {
  input %x: bf16[T, 64]
  input %residual: bf16[T, 64]
  parameter p0: bf16[64]
  %0: f8e4m3[T, 64], %1: f32[T], %2: bf16[T, 64] = fused_add_rms_norm_quant(%x, %residual, p0) {epsilon=1e-06, dtype=f8e4m3}
  %3: bf16[T, 32] = silu_and_mul(%2)
  return %2, %3, %0, %1
})");
}

TEST(FuseNormQuant, leaves_norms_with_another_use_and_sums_that_are_quantised) {
  expect_leaves(kFuseNormQuant, R"(program {
  input %x: bf16[T, 64]
  parameter p0: bf16[64]
  %0: bf16[T, 64] = rms_norm(%x, p0) {epsilon=1e-06}
  %1: i8[T, 64], %2: f32[T] = quantize_per_token(%0) {dtype=i8}
  %3: bf16[T, 64], %4: bf16[T, 64] = fused_add_rms_norm(%x, %x, p0) {epsilon=1e-06}
  %5: i8[T, 64], %6: f32[T] = quantize_per_token(%4) {dtype=i8}
  return %0, %1, %2, %3, %5, %6
})");
}

}  // namespace
}  // namespace reprise::compile
