#include "reprise/compile/passes/fuse_attn_quant.h"

#include <gtest/gtest.h>

#include "tests/support/compile/pass_fixture.h"

namespace reprise::compile {
namespace {

using program::Program;

const Pass kFuseAttnQuant = {"fuse_attn_quant", [](Program& p) { return fuse_attn_quant(p); }};

const std::string kHead = R"(program {
  input %query_start_loc: i32[R+1]
  input %seq_lens: i32[R]
  input %block_table: i32[R, 4]
  input %q: bf16[T, 2, 16]
  input %x: f32[1]
  parameter p0: f32[1]
  state s0: bf16[24, 1, 16, 16]
  state s1: bf16[24, 1, 16, 16]
)";

TEST(FuseAttnQuant, lets_attention_write_what_is_used_of_it) {
  expect_rewrites(kFuseAttnQuant,
                  1,
                  kHead + R"(  %0: bf16[T, 2, 16] = empty()
  %1: bf16[T, 2, 16] = attention(%q, s0, s1, %query_start_loc, %seq_lens, %block_table, %0) {scale=0.25, sliding_window=5}
  %2: bf16[T, 32] = flatten(%1)
  %3: f8e4m3[T, 32] = quantize_static(%2, p0) {dtype=f8e4m3}
  return %3
  keep s0, s1
})",
                  kHead + R"(  %0: f8e4m3[T, 2, 16] = empty()
  %1: f8e4m3[T, 2, 16] = attention_quant(%q, s0, s1, %query_start_loc, %seq_lens, %block_table, p0, %0) {scale=0.25, sliding_window=5}
  %2: f8e4m3[T, 32] = flatten(%1)
  return %2
  keep s0, s1
})");
  expect_rewrites(kFuseAttnQuant,
                  1,
                  kHead + R"(  %0: bf16[T, 2, 16] = empty()
  %1: bf16[T, 2, 16] = attention(%q, s0, s1, %query_start_loc, %seq_lens, %block_table, %0) {scale=0.25}
  %2: i8[T, 2, 16] = quantize_static(%1, p0) {dtype=i8}
  return %2
  keep s0, s1
})",
                  kHead + R"(  %0: i8[T, 2, 16] = empty()
  %1: i8[T, 2, 16] = attention_quant(%q, s0, s1, %query_start_loc, %seq_lens, %block_table, p0, %0) {scale=0.25}
  return %1
  keep s0, s1
})");
}

TEST(FuseAttnQuant, leaves_attention_with_another_use) {
  expect_leaves(kFuseAttnQuant, kHead + R"(  %0: bf16[T, 2, 16] = empty()
  %1: bf16[T, 2, 16] = attention(%q, s0, s1, %query_start_loc, %seq_lens, %block_table, %0) {scale=0.25}
  %2: bf16[T, 32] = flatten(%1)
  %3: f8e4m3[T, 32] = quantize_static(%2, p0) {dtype=f8e4m3}
  return %3, %2
  keep s0, s1
})");
}

TEST(FuseAttnQuant, waits_for_no_scale_that_is_computed_later) {
  expect_leaves(kFuseAttnQuant, kHead + R"(  %0: bf16[T, 2, 16] = empty()
  %1: bf16[T, 2, 16] = attention(%q, s0, s1, %query_start_loc, %seq_lens, %block_table, %0) {scale=0.25}
  %2: f32[1] = add(%x, p0)
  %3: bf16[T, 32] = flatten(%1)
  %4: f8e4m3[T, 32] = quantize_static(%3, %2) {dtype=f8e4m3}
  return %4
  keep s0, s1
})");
}

// In a program that was split at attention, a piece gets the output's memory as an input.
TEST(FuseAttnQuant, leaves_what_was_split_at_attention) {
  expect_leaves(kFuseAttnQuant, R"(program {
  input %query_start_loc: i32[R+1]
  input %seq_lens: i32[R]
  input %block_table: i32[R, 4]
  input %q: bf16[T, 2, 16]
  buffer %out: bf16[T, 2, 16]
  parameter p0: f32[1]
  state s0: bf16[24, 1, 16, 16]
  state s1: bf16[24, 1, 16, 16]
  %0: bf16[T, 2, 16] = attention(%q, s0, s1, %query_start_loc, %seq_lens, %block_table, %out) {scale=0.25}
  %1: bf16[T, 32] = flatten(%0)
  %2: f8e4m3[T, 32] = quantize_static(%1, p0) {dtype=f8e4m3}
  return %2
  keep s0, s1
})");
  expect_leaves(kFuseAttnQuant, R"(program {
  input %o: bf16[T, 2, 16]
  parameter p0: f32[1]
  %0: bf16[T, 32] = flatten(%o)
  %1: f8e4m3[T, 32] = quantize_static(%0, p0) {dtype=f8e4m3}
  return %1
})");
}

}  // namespace
}  // namespace reprise::compile
