#include "reprise/compile/passes/fuse_linear.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/support/compile/pass_fixture.h"

namespace reprise::compile {
namespace {

using program::Node;
using program::Program;

const Pass kFuseLinearRopeKvWrite = {"fuse_linear_rope_kv_write",
                                     [](Program& p) { return fuse_linear_rope_kv_write(p); }};

const std::string kLinearInputs = R"(program {
  input %positions: i32[T]
  input %slots: i32[T]
  input %x: bf16[T, 64]
  parameter p0: bf16[64, 64]
  parameter p1: f32[64, 16]
  parameter p2: bf16[16]
  parameter p3: bf16[16]
  state s0: bf16[24, 1, 16, 16]
  state s1: bf16[24, 1, 16, 16]
)";
const std::string kTail =
    R"(  %7: bf16[T, 2, 16], %8: s0, %9: s1 = rope_kv_write(%2, %4, %6, %positions, p1, s0, s1, %slots, p2, p3) {epsilon=1e-06}
  return %7
  keep %8, %9
})";

// The three views of the product. `q`, `k` and `v` are the columns at which their heads begin.
std::string heads(int q, int k, int v) {
  return fmt::format(R"(  %0: bf16[T, 64] = linear(%x, p0)  // qkv_proj
  %1: bf16[T, 32] = slice(%0) {{dim=1, begin={}, length=32}}
  %2: bf16[T, 2, 16] = unflatten(%1) {{heads=2}}
  %3: bf16[T, 16] = slice(%0) {{dim=1, begin={}, length=16}}
  %4: bf16[T, 1, 16] = unflatten(%3) {{heads=1}}
  %5: bf16[T, 16] = slice(%0) {{dim=1, begin={}, length=16}}
  %6: bf16[T, 1, 16] = unflatten(%5) {{heads=1}}
)",
                     q,
                     k,
                     v);
}

TEST(FuseLinearRopeKvWrite, keeps_no_product_of_which_all_heads_are_rotated_or_cached) {
  expect_rewrites(
      kFuseLinearRopeKvWrite,
      1,
      kLinearInputs + heads(0, 32, 48) + kTail,
      kLinearInputs +
          R"(  %0: bf16[T, 2, 16], %1: s0, %2: s1 = linear_rope_kv_write(%x, p0, none, %positions, p1, s0, s1, %slots, p2, p3) {epsilon=1e-06, heads=2}  // qkv_proj
  return %0
  keep %1, %2
})");
}

TEST(FuseLinearRopeKvWrite, leaves_heads_in_another_order_or_with_gaps) {
  expect_leaves(kFuseLinearRopeKvWrite, kLinearInputs + heads(16, 0, 48) + kTail);
  expect_leaves(kFuseLinearRopeKvWrite, kLinearInputs + heads(0, 48, 32) + kTail);
  expect_leaves(kFuseLinearRopeKvWrite, kLinearInputs + heads(0, 32, 32) + kTail);
}

TEST(FuseLinearRopeKvWrite, leaves_products_of_which_columns_are_used_elsewhere) {
  expect_leaves(
      kFuseLinearRopeKvWrite,
      kLinearInputs + heads(0, 32, 48) +
          R"(  %7: bf16[T, 2, 16], %8: s0, %9: s1 = rope_kv_write(%2, %4, %6, %positions, p1, s0, s1, %slots)
  %10: bf16[T, 32] = silu_and_mul(%0)
  return %7, %10
  keep %8, %9
})");
  expect_leaves(
      kFuseLinearRopeKvWrite,
      kLinearInputs + heads(0, 32, 48) +
          R"(  %7: bf16[T, 2, 16], %8: s0, %9: s1 = rope_kv_write(%2, %4, %6, %positions, p1, s0, s1, %slots)
  return %7, %6
  keep %8, %9
})");
  // The columns of k and v overlap.
  expect_leaves(kFuseLinearRopeKvWrite, kLinearInputs + R"(  %0: bf16[T, 64] = linear(%x, p0)
  %1: bf16[T, 32] = slice(%0) {dim=1, begin=0, length=32}
  %2: bf16[T, 2, 16] = unflatten(%1) {heads=2}
  %3: bf16[T, 16] = slice(%0) {dim=1, begin=32, length=16}
  %4: bf16[T, 1, 16] = unflatten(%3) {heads=1}
  %5: bf16[T, 2, 16], %6: s0, %7: s1 = rope_kv_write(%2, %4, %4, %positions, p1, s0, s1, %slots)
  return %5
  keep %6, %7
})");
}

TEST(FuseLinearRopeKvWrite, asks_for_a_kernel) {
  const Pass pass = {"fuse_linear_rope_kv_write", [](Program& p) {
                       return fuse_linear_rope_kv_write(
                           p, [](const Program& program, const Node& node) {
                             return program.type(node.inputs[5]).shape[3].constant() > 16;
                           });
                     }};
  expect_leaves(pass, kLinearInputs + heads(0, 32, 48) + kTail);
}

}  // namespace
}  // namespace reprise::compile
