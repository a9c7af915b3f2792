#include "reprise/compile/passes/fuse_linear.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "tests/support/compile/pass_fixture.h"

namespace reprise::compile {
namespace {

using program::Node;
using program::Program;

const Pass kFuseRmsNormLinear = {"fuse_rms_norm_linear",
                                 [](Program& p) { return fuse_rms_norm_linear(p); }};

TEST(FuseRmsNormLinear, gives_norms_to_the_products_that_alone_use_them) {
  expect_rewrites(kFuseRmsNormLinear,
                  2,
                  R"(program {
  input %x: bf16[T, 64]
  input %n: i32[1]
  parameter p0: bf16[64]
  parameter p1: bf16[96, 64]
  parameter p2: bf16[96]
  parameter p3: bf16[100, 64]
  %0: bf16[T, 64] = rms_norm(%x, p0) {epsilon=1e-05}
  %1: bf16[T, 48] = linear_silu_and_mul(%0, p1, p2)  // mlp.gate_up_proj
  %2: bf16[T, 64] = rms_norm(%x, p0) {epsilon=1e-06}
  %3: f32[T, 100] = lm_head(%2, p3, %n)
  return %1, %3
})",
                  R"(program {
  input %x: bf16[T, 64]
  input %n: i32[1]
  parameter p0: bf16[64]
  parameter p1: bf16[96, 64]
  parameter p2: bf16[96]
  parameter p3: bf16[100, 64]
  %0: bf16[T, 48] = linear_silu_and_mul(%x, p1, p2, none, p0) {epsilon=1e-05}  // mlp.gate_up_proj
  %1: f32[T, 100] = lm_head(%x, p3, %n, none, p0) {epsilon=1e-06}
  return %0, %1
})");
}

constexpr std::string_view kHeadOperands = R"(program {
  input %positions: i32[T]
  input %slots: i32[T]
  input %x: bf16[T, 64]
  parameter p0: bf16[64]
  parameter p1: bf16[64, 64]
  parameter p2: f32[64, 16]
  parameter p3: bf16[16]
  state s0: bf16[24, 1, 16, 16]
  state s1: bf16[24, 1, 16, 16]
)";

std::string heads(const std::string& norms, const std::string& epsilon) {
  return std::string(kHeadOperands) + R"(  %0: bf16[T, 64] = rms_norm(%x, p0) {epsilon=1e-05}
  %1: bf16[T, 2, 16], %2: s0, %3: s1 = linear_rope_kv_write(%0, p1, none, %positions, p2, s0, s1, %slots, )" +
         norms + R"() {)" + epsilon + R"(heads=2}
  return %1
  keep %2, %3
})";
}
std::string normed_heads(const std::string& norms) {
  return std::string(kHeadOperands) +
         R"(  %0: bf16[T, 2, 16], %1: s0, %2: s1 = linear_rope_kv_write(%x, p1, none, %positions, p2, s0, s1, %slots, )" +
         norms + R"(, p0) {epsilon=1e-05, heads=2}
  return %0
  keep %1, %2
})";
}

TEST(FuseRmsNormLinear, gives_norms_to_heads_whose_own_norms_have_the_same_epsilon) {
  expect_rewrites(kFuseRmsNormLinear, 1, heads("none, none", ""), normed_heads("none, none"));
  expect_rewrites(
      kFuseRmsNormLinear, 1, heads("p3, p3", "epsilon=1e-05, "), normed_heads("p3, p3"));
  expect_leaves(kFuseRmsNormLinear, heads("p3, p3", "epsilon=1e-06, "));
}

TEST(FuseRmsNormLinear, leaves_norms_with_another_use_and_other_products) {
  expect_leaves(kFuseRmsNormLinear, R"(program {
  input %x: bf16[T, 64]
  parameter p0: bf16[64]
  parameter p1: bf16[96, 64]
  %0: bf16[T, 64] = rms_norm(%x, p0) {epsilon=1e-05}
  %1: bf16[T, 48] = linear_silu_and_mul(%0, p1)
  %2: bf16[T, 64] = rms_norm(%x, p0) {epsilon=1e-06}
  %3: bf16[T, 96] = linear(%2, p1)
  %4: bf16[T, 48] = linear_silu_and_mul(%x, p1)
  return %0, %1, %3, %4
})");
}

TEST(FuseRmsNormLinear, asks_for_a_kernel) {
  const Pass pass = {"fuse_rms_norm_linear", [](Program& p) {
                       return fuse_rms_norm_linear(
                           p, [](const Program&, const Node&) { return false; });
                     }};
  expect_leaves(pass, heads("none, none", ""));
}

}  // namespace
}  // namespace reprise::compile
