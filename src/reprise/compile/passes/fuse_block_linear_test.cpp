#include "reprise/compile/passes/fuse_linear.h"

#include <gtest/gtest.h>

#include "tests/support/compile/pass_fixture.h"

namespace reprise::compile {
namespace {

using program::Program;

const Pass kFuseBlockLinear = {"fuse_block_linear",
                               [](Program& p) { return fuse_block_linear(p); }};

TEST(FuseBlockLinear, joins_the_ops_around_the_products_of_a_layer) {
  expect_rewrites(kFuseBlockLinear,
                  4,
                  R"(program {
  input %x: bf16[T, 64]
  parameter p0: bf16[64]
  parameter p1: bf16_blocks80[128, 64]
  parameter p2: bf16_blocks90[64, 64]
  %0: bf16[T, 64] = rms_norm(%x, p0) {epsilon=1e-06}  // norm
  %1: i8[T, 80] = quantize_blocks(%0) {dtype=i8}
  %2: bf16[T, 128] = linear(%1, p1)  // gate_up
  %3: bf16[T, 64] = silu_and_mul(%2)
  %4: i8[T, 80] = quantize_blocks(%3) {dtype=i8}
  %5: bf16[T, 64] = linear(%4, p2)  // down
  %6: bf16[T, 64] = add(%x, %5)
  return %6
})",
                  R"(program {
  input %x: bf16[T, 64]
  parameter p0: bf16[64]
  parameter p1: bf16_blocks80[128, 64]
  parameter p2: bf16_blocks90[64, 64]
  %0: i8[T, 80] = rms_norm_quantize_blocks(%x, p0) {epsilon=1e-06, dtype=i8}  // norm
  %1: i8[T, 80] = linear_silu_and_mul_quantize_blocks(%0, p1) {dtype=i8}  // gate_up
  %2: bf16[T, 64] = linear_add(%1, p2, none, %x)  // down
  return %2
})");
}

TEST(FuseBlockLinear, joins_the_ops_behind_products_of_int8_rows) {
  expect_rewrites(kFuseBlockLinear,
                  2,
                  R"(program {
  input %x: bf16[T, 64]
  parameter p0: bf16_int8_rows_panels[128, 64]
  parameter p1: bf16_int8_rows_panels[64, 64]
  parameter p2: bf16[64]
  %0: i8[T, 64], %1: f32[T] = quantize_per_token(%x) {dtype=i8}
  %2: bf16[T, 128] = linear(%0, p0, none, %1)  // gate_up
  %3: bf16[T, 64] = silu_and_mul(%2)
  %4: i8[T, 64], %5: f32[T] = quantize_per_token(%3) {dtype=i8}
  %6: bf16[T, 64] = linear(%4, p1, p2, %5)  // down
  %7: bf16[T, 64] = add(%6, %x)
  return %7
})",
                  R"(program {
  input %x: bf16[T, 64]
  parameter p0: bf16_int8_rows_panels[128, 64]
  parameter p1: bf16_int8_rows_panels[64, 64]
  parameter p2: bf16[64]
  %0: i8[T, 64], %1: f32[T] = quantize_per_token(%x) {dtype=i8}
  %2: bf16[T, 64] = linear_silu_and_mul(%0, p0, none, %1)  // gate_up
  %3: i8[T, 64], %4: f32[T] = quantize_per_token(%2) {dtype=i8}
  %5: bf16[T, 64] = linear_add(%3, p1, p2, %x, %4)  // down
  return %5
})");
}

TEST(FuseBlockLinear, takes_the_product_from_either_side_of_a_sum) {
  expect_rewrites(kFuseBlockLinear,
                  1,
                  R"(program {
  input %x: bf16[T, 64]
  input %q: i8[T, 80]
  parameter p0: bf16_blocks90[64, 64]
  parameter p1: bf16[64]
  %0: bf16[T, 64] = linear(%q, p0, p1)
  %1: bf16[T, 64] = add(%0, %x)
  return %1
})",
                  R"(program {
  input %x: bf16[T, 64]
  input %q: i8[T, 80]
  parameter p0: bf16_blocks90[64, 64]
  parameter p1: bf16[64]
  %0: bf16[T, 64] = linear_add(%q, p0, p1, %x)
  return %0
})");
}

TEST(FuseBlockLinear, leaves_values_with_another_use) {
  expect_leaves(kFuseBlockLinear, R"(program {
  input %x: bf16[T, 64]
  parameter p0: bf16[64]
  parameter p1: bf16_blocks90[64, 64]
  %0: bf16[T, 64] = rms_norm(%x, p0) {epsilon=1e-06}
  %1: i8[T, 80] = quantize_blocks(%0) {dtype=i8}
  %2: bf16[T, 64] = linear(%1, p1)
  %3: bf16[T, 32] = silu_and_mul(%2)
  %4: bf16[T, 64] = add(%x, %2)
  return %0, %3, %4
})");
}

}  // namespace
}  // namespace reprise::compile
