#include "reprise/compile/passes/group_rows.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/support/compile/pass_fixture.h"
#include "tests/support/program/program_fixture.h"

namespace reprise::compile {
namespace {

using program::Program;

const Pass kGroupRows = {"group_rows", [](Program& p) { return group_rows(p); }};

TEST(GroupRows, looks_up_and_norms_in_one_loop) {
  expect_rewrites(kGroupRows,
                  1,
                  R"(program {
  input %ids: i32[T]
  parameter p0: bf16[50, 64]
  parameter p1: bf16[64]
  parameter p2: bf16[64, 64]
  %0: bf16[T, 64] = embedding(%ids, p0)  // embed_tokens
  %1: bf16[T, 64] = rms_norm(%0, p1) {epsilon=1e-06}
  %2: bf16[T, 64] = linear(%1, p2)
  return %2, %0
})",
                  R"(program {
  group g0 {
    input %x0: i32[T]
    input %x1: bf16[50, 64]
    input %x2: bf16[64]
    %0: bf16[T, 64] = embedding(%x0, %x1)
    %1: bf16[T, 64] = rms_norm(%0, %x2) {epsilon=1e-06}
    return %0, %1
  }
  input %ids: i32[T]
  parameter p0: bf16[50, 64]
  parameter p1: bf16[64]
  parameter p2: bf16[64, 64]
  %0: bf16[T, 64], %1: bf16[T, 64] = row_group(%ids, p0, p1) {group=g0}  // embed_tokens
  %2: bf16[T, 64] = linear(%1, p2)
  return %2, %0
})");
}

TEST(GroupRows, keeps_an_operand_that_is_left_out) {
  expect_rewrites(kGroupRows,
                  1,
                  R"(program {
  input %x: f32[T, 64]
  parameter p0: f32[64]
  %0: f32[T, 64] = scale(%x) {scale=0.5}
  %1: f32[T, 64] = layer_norm(%0, p0) {epsilon=1e-05}
  return %1
})",
                  R"(program {
  group g0 {
    input %x0: f32[T, 64]
    input %x1: f32[64]
    %0: f32[T, 64] = scale(%x0) {scale=0.5}
    %1: f32[T, 64] = layer_norm(%0, %x1) {epsilon=1e-05}
    return %1
  }
  input %x: f32[T, 64]
  parameter p0: f32[64]
  %0: f32[T, 64] = row_group(%x, p0) {group=g0}
  return %0
})");
}

TEST(GroupRows, chooses_and_norms_rows_in_one_loop) {
  expect_rewrites(kGroupRows,
                  1,
                  R"(program {
  input %x: bf16[T, 64]
  input %residual: bf16[T, 64]
  input %indices: i32[L]
  parameter p0: bf16[64]
  %0: bf16[L, 64] = gather_rows(%x, %indices)
  %1: bf16[L, 64] = gather_rows(%residual, %indices)
  %2: bf16[L, 64], %3: bf16[L, 64] = fused_add_rms_norm(%0, %1, p0) {epsilon=1e-06}
  return %2
})",
                  R"(program {
  group g0 {
    input %x0: bf16[T, 64]
    input %x1: i32[L]
    input %x2: bf16[T, 64]
    input %x3: bf16[64]
    %0: bf16[L, 64] = gather_rows(%x0, %x1)
    %1: bf16[L, 64] = gather_rows(%x2, %x1)
    %2: bf16[L, 64], %3: bf16[L, 64] = fused_add_rms_norm(%0, %1, %x3) {epsilon=1e-06}
    return %2
  }
  input %x: bf16[T, 64]
  input %residual: bf16[T, 64]
  input %indices: i32[L]
  parameter p0: bf16[64]
  %0: bf16[L, 64] = row_group(%x, %indices, %residual, p0) {group=g0}
  return %0
})");
}

TEST(GroupRows, takes_views_along_and_shares_equal_bodies) {
  const std::string inputs = R"(  input %positions: i32[T]
  input %a: bf16[T, 64]
  input %b: bf16[T, 64]
  parameter p0: bf16[16]
  parameter p1: f32[64, 16]
  parameter p2: bf16[32, 32]
)";
  const auto layer = [](int first, const std::string& x) {
    return fmt::format(R"(  %{1}: bf16[T, 32] = slice(%{0}) {{dim=1, begin=0, length=32}}
  %{2}: bf16[T, 2, 16] = unflatten(%{1}) {{heads=2}}
  %{3}: bf16[T, 16] = slice(%{0}) {{dim=1, begin=32, length=16}}
  %{4}: bf16[T, 1, 16] = unflatten(%{3}) {{heads=1}}
  %{5}: bf16[T, 2, 16] = rms_norm(%{2}, p0) {{epsilon=1e-06}}
  %{6}: bf16[T, 2, 16], %{7}: bf16[T, 1, 16] = rope(%{5}, %{4}, %positions, p1)
  %{8}: bf16[T, 32] = flatten(%{6})
  %{9}: bf16[T, 32] = linear(%{8}, p2)
)",
                       x,
                       first,
                       first + 1,
                       first + 2,
                       first + 3,
                       first + 4,
                       first + 5,
                       first + 6,
                       first + 7,
                       first + 8);
  };
  expect_rewrites(
      kGroupRows,
      2,
      "program {\n" + inputs + layer(0, "a") + layer(9, "b") + R"(  return %8, %17, %6, %15
})",
      "program {\n" + std::string(R"(  group g0 {
    input %x0: bf16[T, 64]
    input %x1: bf16[16]
    input %x2: i32[T]
    input %x3: f32[64, 16]
    %0: bf16[T, 32] = slice(%x0) {dim=1, begin=0, length=32}
    %1: bf16[T, 2, 16] = unflatten(%0) {heads=2}
    %2: bf16[T, 2, 16] = rms_norm(%1, %x1) {epsilon=1e-06}
    %3: bf16[T, 16] = slice(%x0) {dim=1, begin=32, length=16}
    %4: bf16[T, 1, 16] = unflatten(%3) {heads=1}
    %5: bf16[T, 2, 16], %6: bf16[T, 1, 16] = rope(%2, %4, %x2, %x3)
    return %5, %6
  }
)") + inputs +
          R"(  %0: bf16[T, 2, 16], %1: bf16[T, 1, 16] = row_group(%a, p0, %positions, p1) {group=g0}
  %2: bf16[T, 32] = flatten(%0)
  %3: bf16[T, 32] = linear(%2, p2)
  %4: bf16[T, 2, 16], %5: bf16[T, 1, 16] = row_group(%b, p0, %positions, p1) {group=g0}
  %6: bf16[T, 32] = flatten(%4)
  %7: bf16[T, 32] = linear(%6, p2)
  return %3, %7, %1, %5
})");
}

TEST(GroupRows, leaves_ops_alone_that_have_nothing_in_common) {
  // Rows of two different sizes, ops that read only weights, and ops with a matrix product in
  // between.
  expect_leaves(kGroupRows, R"(program {
  input %x: bf16[T, 64]
  input %y: bf16[L, 64]
  parameter p0: bf16[64]
  parameter p1: bf16[64, 64]
  %0: bf16[T, 64] = rms_norm(%x, p0) {epsilon=1e-06}
  %1: bf16[T, 64] = linear(%0, p1)
  %2: bf16[T, 32] = silu_and_mul(%1)
  %3: bf16[L, 64] = rms_norm(%y, p0) {epsilon=1e-06}
  %4: bf16[64] = add(p0, p0)
  %5: bf16[64] = add(%4, p0)
  return %2, %3, %5
})");
}

TEST(GroupRows, joins_no_op_with_what_it_reads_other_than_row_by_row) {
  // These ops read another op's result in other ways: gathered rows, other rows, and rows after a
  // matrix product.
  expect_leaves(kGroupRows, R"(program {
  input %x: bf16[T, 64]
  input %indices: i32[T]
  parameter p0: bf16[64]
  %0: bf16[T, 64] = rms_norm(%x, p0) {epsilon=1e-06}
  %1: bf16[T, 64] = gather_rows(%0, %indices)
  return %1
})");
  expect_leaves(kGroupRows, R"(program {
  input %x: bf16[2*T, 64]
  parameter p0: bf16[64]
  %0: bf16[2*T, 64] = rms_norm(%x, p0) {epsilon=1e-06}
  %1: bf16[T, 64] = slice(%0) {dim=0, begin=T, length=T}
  %2: bf16[T, 32] = silu_and_mul(%1)
  return %2
})");
  expect_leaves(kGroupRows, R"(program {
  input %x: bf16[T, 64]
  parameter p0: bf16[64]
  parameter p1: bf16[64, 64]
  %0: bf16[T, 64] = rms_norm(%x, p0) {epsilon=1e-06}
  %1: bf16[T, 64] = linear(%0, p1)
  %2: bf16[T, 64] = add(%0, %1)
  return %2
})");
}

TEST(GroupRows, moves_nothing_but_what_it_groups) {
  // The sum reads the result of attention, which does not move, and the norm reads the sum.
  expect_rewrites(kGroupRows,
                  1,
                  R"(program {
  input %query_start_loc: i32[R+1]
  input %seq_lens: i32[R]
  input %block_table: i32[R, 4]
  input %q: bf16[T, 2, 16]
  input %x: bf16[T, 32]
  parameter p0: bf16[32]
  state s0: bf16[24, 1, 16, 16]
  state s1: bf16[24, 1, 16, 16]
  %0: bf16[T, 32] = rms_norm(%x, p0) {epsilon=1e-06}
  %1: bf16[T, 2, 16] = empty()
  %2: bf16[T, 2, 16] = attention(%q, s0, s1, %query_start_loc, %seq_lens, %block_table, %1) {scale=0.25}
  %3: bf16[T, 32] = flatten(%2)
  %4: bf16[T, 32] = add(%0, %3)
  return %4
  keep s0, s1
})",
                  R"(program {
  group g0 {
    input %x0: bf16[T, 32]
    input %x1: bf16[32]
    input %x2: bf16[T, 2, 16]
    %0: bf16[T, 32] = rms_norm(%x0, %x1) {epsilon=1e-06}
    %1: bf16[T, 32] = flatten(%x2)
    %2: bf16[T, 32] = add(%0, %1)
    return %2
  }
  input %query_start_loc: i32[R+1]
  input %seq_lens: i32[R]
  input %block_table: i32[R, 4]
  input %q: bf16[T, 2, 16]
  input %x: bf16[T, 32]
  parameter p0: bf16[32]
  state s0: bf16[24, 1, 16, 16]
  state s1: bf16[24, 1, 16, 16]
  %0: bf16[T, 2, 16] = empty()
  %1: bf16[T, 2, 16] = attention(%q, s0, s1, %query_start_loc, %seq_lens, %block_table, %0) {scale=0.25}
  %2: bf16[T, 32] = row_group(%x, p0, %1) {group=g0}
  return %2
  keep s0, s1
})");
}

// A program with n sums: each adds two new inputs to the previous sum.
std::string sums(int n) {
  std::string text = "program {\n  input %x: bf16[T, 64]\n";
  for (int i = 0; i < n; ++i) text += fmt::format("  input %y{}: bf16[T, 64]\n", i);
  for (int i = 0; i < n; ++i) {
    text += fmt::format(
        "  %{0}: bf16[T, 64] = add({1}, %y{0})\n", i, i == 0 ? "%x" : fmt::format("%{}", i - 1));
  }
  return text + fmt::format("  return %{}\n}}", n - 1);
}

TEST(GroupRows, has_at_most_15_operands_and_results_in_a_group) {
  Program program = program::program_of(sums(13));
  EXPECT_EQ(group_rows(program), 1U);
  EXPECT_EQ(program.nodes.size(), 1U) << "14 operands, one result";
  program = program::program_of(sums(14));
  EXPECT_EQ(group_rows(program), 1U);
  EXPECT_EQ(program.nodes.size(), 2U);
}

TEST(GroupRows, has_at_most_4_results_and_64_ops_in_a_group) {
  const auto chain = [](int n) {
    std::string text = "program {\n  input %x: bf16[T, 64]\n  %0: bf16[T, 64] = add(%x, %x)\n";
    for (int i = 1; i < n; ++i) {
      text += fmt::format("  %{}: bf16[T, 64] = add(%{}, %x)\n", i, i - 1);
    }
    return text;
  };
  Program program = program::program_of(chain(5) + "  return %0, %1, %2, %3, %4\n}");
  EXPECT_EQ(group_rows(program), 1U);
  EXPECT_EQ(program.nodes.size(), 2U) << "four in a group, one alone";
  program = program::program_of(chain(64) + "  return %63\n}");
  EXPECT_EQ(group_rows(program), 1U);
  EXPECT_EQ(program.nodes.size(), 1U);
  program = program::program_of(chain(65) + "  return %64\n}");
  EXPECT_EQ(group_rows(program), 1U);
  EXPECT_EQ(program.nodes.size(), 2U);
}

TEST(GroupRows, asks_whether_there_is_code_for_a_body) {
  const std::string text = R"(program {
  input %x: bf16[T, 64]
  parameter p0: bf16[64]
  %0: bf16[T, 64] = add(%x, %x)
  %1: bf16[T, 64] = rms_norm(%0, p0) {epsilon=1e-06}
  return %1
})";
  const Pass never = {"group_rows", [](Program& p) {
                        return group_rows(p, {.can_compile = [](const Program&) { return false; }});
                      }};
  expect_leaves(never, text);
  expect_leaves({"group_rows",
                 [](Program& p) {
                   return group_rows(p, {.can_compile = [](const Program& body) {
                                       return body.nodes[0].op != OpCode::add;
                                     }});
                 }},
                text);
}

TEST(GroupRows, makes_groups_of_single_ops_if_it_is_told_to) {
  Program program = program::program_of(R"(program {
  input %x: bf16[T, 64]
  parameter p0: bf16[64, 64]
  %0: bf16[T, 64] = linear(%x, p0)
  %1: bf16[T, 32] = silu_and_mul(%0)
  return %1
})");
  EXPECT_EQ(group_rows(program), 0U);
  EXPECT_EQ(group_rows(program, {.group_single_ops = true}), 1U);
  EXPECT_EQ(program.nodes[1].op, OpCode::row_group);
  EXPECT_EQ(group_rows(program, {.group_single_ops = true}), 0U);
}

}  // namespace
}  // namespace reprise::compile
