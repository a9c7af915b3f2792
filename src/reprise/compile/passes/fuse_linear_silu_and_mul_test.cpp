#include "reprise/compile/passes/fuse_linear.h"

#include <gtest/gtest.h>

#include "tests/support/compile/pass_fixture.h"

namespace reprise::compile {
namespace {

using program::Node;
using program::Program;

const Pass kFuseLinearSiluAndMul = {"fuse_linear_silu_and_mul",
                                    [](Program& p) { return fuse_linear_silu_and_mul(p); }};

TEST(FuseLinearSiluAndMul, keeps_no_product_that_only_the_activation_uses) {
  expect_rewrites(kFuseLinearSiluAndMul,
                  2,
                  R"(program {
  input %x: bf16[T, 64]
  parameter p0: bf16[96, 64]
  parameter p1: bf16[96]
  %0: bf16[T, 96] = linear(%x, p0, p1)  // mlp.gate_up_proj
  %1: bf16[T, 64] = add(%x, %x)
  %2: bf16[T, 48] = silu_and_mul(%0)
  %3: bf16[T, 96] = linear(%1, p0)
  %4: bf16[T, 48] = silu_and_mul(%3)
  return %2, %4
})",
                  R"(program {
  input %x: bf16[T, 64]
  parameter p0: bf16[96, 64]
  parameter p1: bf16[96]
  %0: bf16[T, 64] = add(%x, %x)
  %1: bf16[T, 48] = linear_silu_and_mul(%x, p0, p1)  // mlp.gate_up_proj
  %2: bf16[T, 48] = linear_silu_and_mul(%0, p0)
  return %1, %2
})");
}

TEST(FuseLinearSiluAndMul, leaves_products_with_another_use_and_other_operands) {
  expect_leaves(kFuseLinearSiluAndMul, R"(program {
  input %x: bf16[T, 64]
  parameter p0: bf16[96, 64]
  %0: bf16[T, 96] = linear(%x, p0)
  %1: bf16[T, 48] = silu_and_mul(%0)
  %2: bf16[T, 96] = linear(%x, p0)
  %3: bf16[T, 32] = slice(%2) {dim=1, begin=0, length=32}
  %4: bf16[T, 16] = silu_and_mul(%3)
  %5: bf16[T, 32] = silu_and_mul(%x)
  return %0, %1, %4, %5
})");
}

TEST(FuseLinearSiluAndMul, asks_for_a_kernel) {
  const Pass pass = {"fuse_linear_silu_and_mul", [](Program& p) {
                       return fuse_linear_silu_and_mul(
                           p, [](const Program&, const Node&) { return false; });
                     }};
  expect_leaves(pass, R"(program {
  input %x: bf16[T, 64]
  parameter p0: bf16[96, 64]
  %0: bf16[T, 96] = linear(%x, p0)
  %1: bf16[T, 48] = silu_and_mul(%0)
  return %1
})");
}

}  // namespace
}  // namespace reprise::compile
