#include "reprise/compile/passes/eliminate_noops.h"

#include <gtest/gtest.h>

#include "tests/support/compile/pass_fixture.h"

namespace reprise::compile {
namespace {

const Pass kEliminateNoops = {"eliminate_noops", eliminate_noops};

TEST(EliminateNoops, takes_out_slices_of_everything) {
  expect_rewrites(kEliminateNoops,
                  3,
                  R"(program {
  input %x: f32[T, 64]
  %0: f32[T, 64] = slice(%x) {dim=0, begin=0, length=T}
  %1: f32[T, 64] = slice(%0) {dim=1, begin=0, length=64}
  %2: f32[T, 32] = silu_and_mul(%1)
  %3: f32[T, 32] = slice(%2) {dim=1, begin=0, length=32}
  return %3
})",
                  R"(program {
  input %x: f32[T, 64]
  %0: f32[T, 32] = silu_and_mul(%x)
  return %0
})");
}

TEST(EliminateNoops, keeps_slices_of_a_part) {
  expect_leaves(kEliminateNoops, R"(program {
  input %x: f32[T, 64]
  %0: f32[T, 63] = slice(%x) {dim=1, begin=0, length=63}
  %1: f32[T, 63] = slice(%x) {dim=1, begin=1, length=63}
  %2: f32[1, 64] = slice(%x) {dim=0, begin=0, length=1}
  return %0, %1, %2
})");
}

TEST(EliminateNoops, makes_each_view_of_a_chain_a_view_of_its_beginning) {
  expect_rewrites(kEliminateNoops,
                  3,
                  R"(program {
  input %x: f32[T, 64]
  %0: f32[T, 48] = slice(%x) {dim=1, begin=16, length=48}
  %1: f32[T, 40] = slice(%0) {dim=1, begin=8, length=40}
  %2: f32[T, 32] = slice(%1) {dim=1, begin=4, length=32}
  %3: f32[T, 2, 16] = unflatten(%2) {heads=2}
  %4: f32[T, 32] = flatten(%3)
  %5: f32[T, 2, 16] = unflatten(%4) {heads=2}
  return %5
})",
                  R"(program {
  input %x: f32[T, 64]
  %0: f32[T, 48] = slice(%x) {dim=1, begin=16, length=48}
  %1: f32[T, 40] = slice(%x) {dim=1, begin=24, length=40}
  %2: f32[T, 32] = slice(%x) {dim=1, begin=28, length=32}
  %3: f32[T, 2, 16] = unflatten(%2) {heads=2}
  %4: f32[T, 2, 16] = unflatten(%2) {heads=2}
  return %4
})");
}

TEST(EliminateNoops, adds_symbolic_beginnings) {
  expect_rewrites(kEliminateNoops,
                  1,
                  R"(program {
  input %x: f32[3*T+2, 64]
  %0: f32[2*T+1, 64] = slice(%x) {dim=0, begin=T+1, length=2*T+1}
  %1: f32[T, 64] = slice(%0) {dim=0, begin=T, length=T}
  return %0, %1
})",
                  R"(program {
  input %x: f32[3*T+2, 64]
  %0: f32[2*T+1, 64] = slice(%x) {dim=0, begin=T+1, length=2*T+1}
  %1: f32[T, 64] = slice(%x) {dim=0, begin=2*T+1, length=T}
  return %0, %1
})");
}

TEST(EliminateNoops, keeps_slices_of_different_dimensions) {
  expect_leaves(kEliminateNoops, R"(program {
  input %x: f32[T, 64]
  %0: f32[1, 64] = slice(%x) {dim=0, begin=0, length=1}
  %1: f32[1, 32] = slice(%0) {dim=1, begin=0, length=32}
  return %1
})");
}

TEST(EliminateNoops, pairs_flatten_and_unflatten_of_one_shape_only) {
  expect_rewrites(kEliminateNoops,
                  1,
                  R"(program {
  input %x: f32[T, 4, 16]
  %0: f32[T, 64] = flatten(%x)
  %1: f32[T, 4, 16] = unflatten(%0) {heads=4}
  %2: f32[T, 8, 8] = unflatten(%0) {heads=8}
  return %1, %2
})",
                  R"(program {
  input %x: f32[T, 4, 16]
  %0: f32[T, 64] = flatten(%x)
  %1: f32[T, 8, 8] = unflatten(%0) {heads=8}
  return %x, %1
})");
}

TEST(EliminateNoops, does_not_return_a_parameter) {
  expect_rewrites(kEliminateNoops,
                  1,
                  R"(program {
  parameter p0: f32[8, 64]
  %0: f32[8, 64] = slice(p0) {dim=0, begin=0, length=8}
  %1: f32[8, 64] = slice(%0) {dim=1, begin=0, length=64}
  return %1
})",
                  R"(program {
  parameter p0: f32[8, 64]
  %0: f32[8, 64] = slice(p0) {dim=1, begin=0, length=64}
  return %0
})");
}

TEST(EliminateNoops, takes_out_memory_that_nobody_wants) {
  expect_rewrites(kEliminateNoops,
                  2,
                  R"(program {
  input %x: f32[T, 64]
  %0: f32[T, 64] = empty()
  %1: f32[T, 64] = slice(%0) {dim=1, begin=0, length=64}
  return %x
})",
                  R"(program {
  input %x: f32[T, 64]
  return %x
})");
}

}  // namespace
}  // namespace reprise::compile
