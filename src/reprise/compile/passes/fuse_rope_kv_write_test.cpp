#include "reprise/compile/passes/fuse_rope_kv_write.h"

#include <gtest/gtest.h>

#include "tests/support/compile/pass_fixture.h"

namespace reprise::compile {
namespace {

using program::Node;
using program::Program;

const Pass kFuseRopeKvWrite = {"fuse_rope_kv_write",
                               [](Program& p) { return fuse_rope_kv_write(p); }};
const Pass kNormPass = {"fuse_qk_norm_rope_kv_write",
                        [](Program& p) { return fuse_qk_norm_rope_kv_write(p); }};

const std::string kInputs = R"(program {
  input %positions: i32[T]
  input %slots: i32[T]
  input %q: bf16[T, 2, 16]
  input %k: bf16[T, 1, 16]
  input %v: bf16[T, 1, 16]
  parameter p0: f32[64, 16]
  parameter p1: bf16[16]
  parameter p2: bf16[16]
  state s0: bf16[24, 1, 16, 16]
  state s1: bf16[24, 1, 16, 16]
)";
const std::string kNorms = R"(  %0: bf16[T, 2, 16] = rms_norm(%q, p1) {epsilon=1e-06}
  %1: bf16[T, 1, 16] = rms_norm(%k, p2) {epsilon=1e-06}
)";

TEST(FuseRopeKvWrite, writes_keys_as_they_are_rotated) {
  expect_rewrites(
      kFuseRopeKvWrite,
      1,
      kInputs + R"(  %0: bf16[T, 2, 16], %1: bf16[T, 1, 16] = rope(%q, %k, %positions, p0)
  %2: bf16[T, 1, 16] = add(%v, %v)
  %3: s0, %4: s1 = kv_write(%1, %2, s0, s1, %slots)  // layers.0
  %5: bf16[T, 32] = flatten(%0)
  return %5
  keep %3, %4
})",
      kInputs + R"(  %0: bf16[T, 1, 16] = add(%v, %v)
  %1: bf16[T, 2, 16], %2: s0, %3: s1 = rope_kv_write(%q, %k, %0, %positions, p0, s0, s1, %slots)  // layers.0
  %4: bf16[T, 32] = flatten(%1)
  return %4
  keep %2, %3
})");
}

TEST(FuseRopeKvWrite, takes_in_the_norms_of_both) {
  const std::string before =
      kInputs + kNorms +
      R"(  %2: bf16[T, 2, 16], %3: bf16[T, 1, 16] = rope(%0, %1, %positions, p0)
  %4: s0, %5: s1 = kv_write(%3, %v, s0, s1, %slots)
  return %2
  keep %4, %5
})";
  expect_rewrites(
      kNormPass,
      1,
      before,
      kInputs +
          R"(  %0: bf16[T, 2, 16], %1: s0, %2: s1 = rope_kv_write(%q, %k, %v, %positions, p0, s0, s1, %slots, p1, p2) {epsilon=1e-06}
  return %0
  keep %1, %2
})");
  expect_rewrites(
      kFuseRopeKvWrite,
      1,
      before,
      kInputs + kNorms +
          R"(  %2: bf16[T, 2, 16], %3: s0, %4: s1 = rope_kv_write(%0, %1, %v, %positions, p0, s0, s1, %slots)
  return %2
  keep %3, %4
})");
}

TEST(FuseRopeKvWrite, takes_in_norms_of_one_epsilon_that_only_the_rotation_uses) {
  // The two norms have different epsilons.
  expect_leaves(kNormPass, kInputs + R"(  %0: bf16[T, 2, 16] = rms_norm(%q, p1) {epsilon=1e-06}
  %1: bf16[T, 1, 16] = rms_norm(%k, p2) {epsilon=1e-05}
  %2: bf16[T, 2, 16], %3: bf16[T, 1, 16] = rope(%0, %1, %positions, p0)
  %4: s0, %5: s1 = kv_write(%3, %v, s0, s1, %slots)
  return %2
  keep %4, %5
})");
  // The program returns the result of a norm.
  expect_leaves(kNormPass,
                kInputs + kNorms +
                    R"(  %2: bf16[T, 2, 16], %3: bf16[T, 1, 16] = rope(%0, %1, %positions, p0)
  %4: s0, %5: s1 = kv_write(%3, %v, s0, s1, %slots)
  return %2, %0
  keep %4, %5
})");
  // Only q has a norm.
  expect_leaves(kNormPass, kInputs + R"(  %0: bf16[T, 2, 16] = rms_norm(%q, p1) {epsilon=1e-06}
  %1: bf16[T, 2, 16], %2: bf16[T, 1, 16] = rope(%0, %k, %positions, p0)
  %3: s0, %4: s1 = kv_write(%2, %v, s0, s1, %slots)
  return %1
  keep %3, %4
})");
}

TEST(FuseRopeKvWrite, leaves_keys_that_are_used_elsewhere) {
  expect_leaves(kFuseRopeKvWrite,
                kInputs + R"(  %0: bf16[T, 2, 16], %1: bf16[T, 1, 16] = rope(%q, %k, %positions, p0)
  %2: s0, %3: s1 = kv_write(%1, %v, s0, s1, %slots)
  return %0, %1
  keep %2, %3
})");
  expect_leaves(kFuseRopeKvWrite,
                kInputs + R"(  %0: bf16[T, 2, 16], %1: bf16[T, 1, 16] = rope(%q, %k, %positions, p0)
  %2: s0, %3: s1 = kv_write(%1, %1, s0, s1, %slots)
  return %0
  keep %2, %3
})");
}

TEST(FuseRopeKvWrite, leaves_what_needs_the_rotated_queries_before_the_write) {
  expect_leaves(kFuseRopeKvWrite,
                kInputs + R"(  %0: bf16[T, 2, 16], %1: bf16[T, 1, 16] = rope(%q, %k, %positions, p0)
  %2: bf16[T, 32] = flatten(%0)
  %3: s0, %4: s1 = kv_write(%1, %v, s0, s1, %slots)
  return %2
  keep %3, %4
})");
  // The program writes the rotated queries as values.
  expect_leaves(kFuseRopeKvWrite,
                kInputs + R"(  %0: bf16[T, 1, 16], %1: bf16[T, 1, 16] = rope(%v, %k, %positions, p0)
  %2: s0, %3: s1 = kv_write(%1, %0, s0, s1, %slots)
  return %0
  keep %2, %3
})");
}

TEST(FuseRopeKvWrite, leaves_writes_of_anything_but_rotated_keys) {
  expect_leaves(kFuseRopeKvWrite,
                kInputs + R"(  %0: bf16[T, 1, 16], %1: bf16[T, 1, 16] = rope(%k, %v, %positions, p0)
  %2: s0, %3: s1 = kv_write(%0, %v, s0, s1, %slots)
  return %1
  keep %2, %3
})");
  expect_leaves(kFuseRopeKvWrite, kInputs + R"(  %0: s0, %1: s1 = kv_write(%k, %v, s0, s1, %slots)
  return %q
  keep %0, %1
})");
}

TEST(FuseRopeKvWrite, asks_for_a_kernel) {
  const Pass pass = {"fuse_rope_kv_write", [](Program& p) {
                       return fuse_rope_kv_write(p, [](const Program& program, const Node& node) {
                         return program.type(node.inputs[5]).shape[3].constant() > 16;
                       });
                     }};
  expect_leaves(pass,
                kInputs + R"(  %0: bf16[T, 2, 16], %1: bf16[T, 1, 16] = rope(%q, %k, %positions, p0)
  %2: s0, %3: s1 = kv_write(%1, %v, s0, s1, %slots)
  return %0
  keep %2, %3
})");
}

}  // namespace
}  // namespace reprise::compile
