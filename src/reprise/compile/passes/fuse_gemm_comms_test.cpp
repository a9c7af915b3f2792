#include "reprise/compile/passes/fuse_gemm_comms.h"

#include <gtest/gtest.h>

#include "tests/support/compile/pass_fixture.h"

namespace reprise::compile {
namespace {

using program::Program;

const Pass kFuseGemmComms = {"fuse_gemm_comms", [](Program& p) { return fuse_gemm_comms(p); }};

TEST(FuseGemmComms, multiplies_rows_as_they_arrive_and_sends_them_as_they_are_made) {
  expect_rewrites(kFuseGemmComms,
                  2,
                  R"(program {
  input %x: bf16[T, 64]
  parameter p0: bf16[32, 64]
  parameter p1: bf16[32]
  parameter p2: bf16[64, 32]
  %0: bf16[2*T, 64] = all_gather(%x) {ranks=2}
  %1: bf16[2*T, 32] = linear(%0, p0, p1)  // qkv_proj
  %2: bf16[2*T, 32] = add(%1, %1)
  %3: bf16[2*T, 64] = linear(%2, p2)  // o_proj
  %4: bf16[T, 64] = reduce_scatter(%3) {ranks=2}
  return %4
})",
                  R"(program {
  input %x: bf16[T, 64]
  parameter p0: bf16[32, 64]
  parameter p1: bf16[32]
  parameter p2: bf16[64, 32]
  %0: bf16[2*T, 32] = all_gather_linear(%x, p0, p1) {ranks=2}  // qkv_proj
  %1: bf16[2*T, 32] = add(%0, %0)
  %2: bf16[T, 64] = linear_reduce_scatter(%1, p2) {ranks=2}  // o_proj
  return %2
})");
}

TEST(FuseGemmComms, leaves_rows_and_products_with_another_use) {
  expect_leaves(kFuseGemmComms, R"(program {
  input %x: bf16[T, 64]
  parameter p0: bf16[64, 64]
  %0: bf16[2*T, 64] = all_gather(%x) {ranks=2}
  %1: bf16[2*T, 64] = linear(%0, p0)
  %2: bf16[T, 64] = reduce_scatter(%1) {ranks=2}
  return %0, %1, %2
})");
}

}  // namespace
}  // namespace reprise::compile
