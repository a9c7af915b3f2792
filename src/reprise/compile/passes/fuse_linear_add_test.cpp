#include "reprise/compile/passes/fuse_linear.h"

#include <gtest/gtest.h>

#include "tests/support/compile/pass_fixture.h"

namespace reprise::compile {
namespace {

using program::Program;

const Pass kFuseLinearAdd = {"fuse_linear_add", [](Program& p) { return fuse_linear_add(p); }};

TEST(FuseLinearAdd, adds_a_product_on_either_side) {
  expect_rewrites(kFuseLinearAdd,
                  2,
                  R"(program {
  input %x: bf16[T, 64]
  parameter p0: bf16[64, 64]
  parameter p1: bf16[64]
  %0: bf16[T, 64] = linear(%x, p0, p1)  // o_proj
  %1: bf16[T, 64] = add(%x, %0)
  %2: bf16[T, 64] = linear(%1, p0)
  %3: bf16[T, 64] = add(%2, %1)
  return %3
})",
                  R"(program {
  input %x: bf16[T, 64]
  parameter p0: bf16[64, 64]
  parameter p1: bf16[64]
  %0: bf16[T, 64] = linear_add(%x, p0, p1, %x)  // o_proj
  %1: bf16[T, 64] = linear_add(%0, p0, none, %0)
  return %1
})");
}

TEST(FuseLinearAdd, fuses_the_second_of_two_products) {
  expect_rewrites(kFuseLinearAdd,
                  1,
                  R"(program {
  input %x: bf16[T, 64]
  parameter p0: bf16[64, 64]
  parameter p1: bf16[64, 64]
  %0: bf16[T, 64] = linear(%x, p0)
  %1: bf16[T, 64] = linear(%x, p1)
  %2: bf16[T, 64] = add(%0, %1)
  return %2
})",
                  R"(program {
  input %x: bf16[T, 64]
  parameter p0: bf16[64, 64]
  parameter p1: bf16[64, 64]
  %0: bf16[T, 64] = linear(%x, p0)
  %1: bf16[T, 64] = linear_add(%x, p1, none, %0)
  return %1
})");
}

TEST(FuseLinearAdd, leaves_products_with_another_use) {
  expect_leaves(kFuseLinearAdd, R"(program {
  input %x: bf16[T, 64]
  parameter p0: bf16[64, 64]
  %0: bf16[T, 64] = linear(%x, p0)
  %1: bf16[T, 64] = add(%0, %0)
  %2: bf16[T, 64] = linear(%1, p0)
  %3: bf16[T, 64] = add(%1, %2)
  return %2, %3
})");
}

}  // namespace
}  // namespace reprise::compile
