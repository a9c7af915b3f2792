#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "reprise/compile/passes/fuse_linear.h"
#include "tests/support/compile/pass_fixture.h"

namespace reprise::compile {
namespace {

using program::Node;
using program::Program;

const Pass kFuseQuantizeLinear = {"fuse_quantize_linear",
                                  [](Program& p) { return fuse_quantize_linear(p); }};

TEST(FuseQuantizeLinear, lets_the_products_of_a_layer_norm_and_quantise_their_rows) {
  expect_rewrites(kFuseQuantizeLinear,
                  3,
                  R"(program {
  input %x: bf16[T, 64]
  input %y: bf16[T, 64]
  parameter p0: bf16[64]
  parameter p1: bf16_blocks80[128, 64]
  parameter p2: bf16_blocks90[64, 64]
  %0: i8[T, 80] = quantize_blocks(%y) {dtype=i8}
  %1: bf16[T, 64] = linear_add(%0, p2, none, %x)  // o
  %2: i8[T, 80] = rms_norm_quantize_blocks(%1, p0) {epsilon=1e-06, dtype=i8}  // norm
  %3: i8[T, 80] = linear_silu_and_mul_quantize_blocks(%2, p1) {dtype=i8}  // gate_up
  %4: bf16[T, 64] = linear_add(%3, p2, none, %1)  // down
  return %4
})",
                  R"(program {
  input %x: bf16[T, 64]
  input %y: bf16[T, 64]
  parameter p0: bf16[64]
  parameter p1: bf16_blocks80[128, 64]
  parameter p2: bf16_blocks90[64, 64]
  %0: bf16[T, 64] = linear_add(%y, p2, none, %x)  // o
  %1: bf16[T, 64] = linear_silu_and_mul(%0, p1, none, none, p0) {epsilon=1e-06}  // gate_up
  %2: bf16[T, 64] = linear_add(%1, p2, none, %0)  // down
  return %2
})");
}

TEST(FuseQuantizeLinear, takes_int8_rows_and_their_scales) {
  expect_rewrites(kFuseQuantizeLinear,
                  3,
                  R"(program {
  input %x: bf16[T, 64]
  input %n: i32[1]
  parameter p0: bf16_int8_rows_panels[128, 64]
  parameter p1: bf16_int8_rows_panels[64, 64]
  parameter p2: bf16[64]
  %0: i8[T, 64], %1: f32[T] = rms_norm_quant(%x, p2) {epsilon=1e-05, dtype=i8}
  %2: bf16[T, 64] = linear_silu_and_mul(%0, p0, none, %1)  // gate_up
  %3: i8[T, 64], %4: f32[T] = quantize_per_token(%2) {dtype=i8}
  %5: bf16[T, 64] = linear(%3, p1, p2, %4)  // down
  %6: i8[T, 64], %7: f32[T] = rms_norm_quant(%5, p2) {epsilon=1e-05, dtype=i8}
  %8: f32[T, 64] = lm_head(%6, p1, %n, %7)
  return %8
})",
                  R"(program {
  input %x: bf16[T, 64]
  input %n: i32[1]
  parameter p0: bf16_int8_rows_panels[128, 64]
  parameter p1: bf16_int8_rows_panels[64, 64]
  parameter p2: bf16[64]
  %0: bf16[T, 64] = linear_silu_and_mul(%x, p0, none, none, p2) {epsilon=1e-05}  // gate_up
  %1: bf16[T, 64] = linear(%0, p1, p2)  // down
  %2: f32[T, 64] = lm_head(%1, p1, %n, none, p2) {epsilon=1e-05}
  return %2
})");
}

constexpr std::string_view kQuantisedHeadOperands = R"(program {
  input %positions: i32[T]
  input %slots: i32[T]
  input %x: bf16[T, 64]
  parameter p0: bf16[64]
  parameter p1: bf16_blocks90[64, 64]
  parameter p2: f32[64, 16]
  parameter p3: bf16[16]
  state s0: bf16[24, 1, 16, 16]
  state s1: bf16[24, 1, 16, 16]
)";

std::string quantised_heads(const std::string& norms, const std::string& epsilon) {
  return std::string(kQuantisedHeadOperands) +
         R"(  %0: i8[T, 80] = rms_norm_quantize_blocks(%x, p0) {epsilon=1e-05, dtype=i8}
  %1: bf16[T, 64] = linear(%0, p1)
  %2: bf16[T, 32] = slice(%1) {dim=1, begin=0, length=32}
  %3: bf16[T, 2, 16] = unflatten(%2) {heads=2}
  %4: bf16[T, 16] = slice(%1) {dim=1, begin=32, length=16}
  %5: bf16[T, 1, 16] = unflatten(%4) {heads=1}
  %6: bf16[T, 16] = slice(%1) {dim=1, begin=48, length=16}
  %7: bf16[T, 1, 16] = unflatten(%6) {heads=1}
  %8: bf16[T, 2, 16], %9: s0, %10: s1 = rope_kv_write(%3, %5, %7, %positions, p2, s0, s1, %slots)" +
         norms + ")" + epsilon + R"(
  return %8
  keep %9, %10
})";
}
std::string heads_with_rows_inside(const std::string& norms) {
  return std::string(kQuantisedHeadOperands) +
         R"(  %0: bf16[T, 2, 16], %1: s0, %2: s1 = linear_rope_kv_write(%x, p1, none, %positions, p2, s0, s1, %slots, )" +
         norms + R"(, p0) {epsilon=1e-05, heads=2}
  return %0
  keep %1, %2
})";
}

TEST(FuseQuantizeLinear, joins_heads_with_the_norm_and_the_quantisation_before_them) {
  expect_rewrites(
      kFuseQuantizeLinear, 1, quantised_heads("", ""), heads_with_rows_inside("none, none"));
  expect_rewrites(kFuseQuantizeLinear,
                  1,
                  quantised_heads(", p3, p3", " {epsilon=1e-05}"),
                  heads_with_rows_inside("p3, p3"));
  expect_leaves(kFuseQuantizeLinear, quantised_heads(", p3, p3", " {epsilon=1e-06}"));
}

// Fewer launches would not follow: a linear has no norm, and rows with another use are needed.
TEST(FuseQuantizeLinear, leaves_normed_rows_of_a_linear_and_rows_with_another_use) {
  expect_leaves(kFuseQuantizeLinear, R"(program {
  input %x: bf16[T, 64]
  input %experts: i32[T, 2]
  parameter p0: bf16[64]
  parameter p1: bf16_blocks90[64, 64]
  parameter p2: bf16_blocks80[128, 64]
  parameter p3: bf16_blocks90[4, 16, 64]
  %0: i8[T, 80] = rms_norm_quantize_blocks(%x, p0) {epsilon=1e-06, dtype=i8}
  %1: bf16[T, 64] = linear(%0, p1)
  %2: i8[T, 80] = quantize_blocks(%1) {dtype=i8}
  %3: bf16[T, 64] = linear(%2, p1)
  %4: i8[T, 80] = linear_silu_and_mul_quantize_blocks(%2, p2) {dtype=i8}
  %5: bf16[T, 64] = linear(%4, p1)
  %6: bf16[T, 64] = linear(%4, p1)
  %7: i8[T, 80] = quantize_blocks(%x) {dtype=i8}
  %8: bf16[2*T, 16] = expert_linear(%7, p3, none, %experts)
  return %3, %5, %6, %8
})");
}

TEST(FuseQuantizeLinear, asks_for_a_kernel) {
  const Pass pass = {"fuse_quantize_linear", [](Program& p) {
                       return fuse_quantize_linear(
                           p, [](const Program&, const Node&) { return false; });
                     }};
  expect_leaves(pass, quantised_heads("", ""));
}

}  // namespace
}  // namespace reprise::compile
