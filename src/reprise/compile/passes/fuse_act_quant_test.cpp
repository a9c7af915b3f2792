#include "reprise/compile/passes/fuse_act_quant.h"

#include <gtest/gtest.h>

#include "tests/support/compile/pass_fixture.h"

namespace reprise::compile {
namespace {

using program::Program;

const Pass kFuseActQuant = {"fuse_act_quant", [](Program& p) { return fuse_act_quant(p); }};

TEST(FuseActQuant, stores_no_activation_of_which_only_the_quantised_form_is_used) {
  expect_rewrites(kFuseActQuant,
                  1,
                  R"(program {
  input %x: bf16[T, 64]
  %0: bf16[T, 32] = silu_and_mul(%x)  // act_fn
  %1: i8[T, 32], %2: f32[T] = quantize_per_token(%0) {dtype=i8}
  return %1, %2
})",
                  R"(program {
  input %x: bf16[T, 64]
  %0: i8[T, 32], %1: f32[T] = silu_and_mul_quant(%x) {dtype=i8}  // act_fn
  return %0, %1
})");
}

TEST(FuseActQuant, leaves_activations_with_another_use) {
  expect_leaves(kFuseActQuant, R"(program {
  input %x: bf16[T, 64]
  parameter p0: f32[1]
  %0: bf16[T, 32] = silu_and_mul(%x)
  %1: i8[T, 32], %2: f32[T] = quantize_per_token(%0) {dtype=i8}
  %3: bf16[T, 32] = silu_and_mul(%x)
  %4: i8[T, 32] = quantize_static(%3, p0) {dtype=i8}
  return %0, %1, %2, %4
})");
}

}  // namespace
}  // namespace reprise::compile
