#include "reprise/compile/codegen/row_loops.h"

#include <gtest/gtest.h>

#include "reprise/program/text.h"
#include "tests/support/compile/codegen_fixture.h"

namespace reprise::compile {
namespace {

constexpr int kLanes = 16;

RowLoops loops_of(const program::Program& body) {
  auto loops = choose_row_loops(body, kLanes);
  if (const auto* reason = std::get_if<std::string>(&loops)) ADD_FAILURE() << *reason;
  return std::get<RowLoops>(loops);
}

std::string refusal_of(const std::string& text) {
  const auto loops = choose_row_loops(program::parse(text), kLanes);
  const auto* reason = std::get_if<std::string>(&loops);
  return reason == nullptr ? "" : *reason;
}

std::vector<RowAction::Kind> kinds(const RowLoop& loop) {
  std::vector<RowAction::Kind> result;
  for (const RowAction& action : loop.actions) result.push_back(action.kind);
  return result;
}

using enum RowAction::Kind;

TEST(RowLoops, norms_in_two_loops_and_reads_the_sum_back_from_the_output) {
  const RowLoops loops = loops_of(make_body("add_rms_norm", {.width = 896}));
  ASSERT_EQ(loops.nests.size(), 1U);
  ASSERT_EQ(loops.nests[0].loops.size(), 2U);
  EXPECT_EQ(kinds(loops.nests[0].loops[0]), (std::vector{store, sum_squares}));
  EXPECT_EQ(kinds(loops.nests[0].loops[1]), (std::vector{store}));
  EXPECT_EQ(loops.scratch_bytes, 0U);
}

TEST(RowLoops, keeps_what_two_loops_want_in_the_scratch) {
  const RowLoops loops = loops_of(make_body("add_rms_norm_alone", {.width = 900}));
  EXPECT_EQ(kinds(loops.nests[0].loops[0]), (std::vector{keep, sum_squares}));
  EXPECT_EQ(loops.scratch_bytes, 1856U);  // 900 bfloat16, rounded up to a multiple of 64
}

TEST(RowLoops, keeps_narrow_rows_in_registers) {
  const RowLoops loops = loops_of(make_body("add_rms_norm_alone", {.width = 128}));
  EXPECT_TRUE(loops.nests[0].is_unrolled);
  EXPECT_EQ(loops.scratch_bytes, 0U);
}

TEST(RowLoops, adds_chains_in_one_loop) {
  const RowLoops loops = loops_of(make_body("add_chain", {.width = 4096}));
  ASSERT_EQ(loops.nests.size(), 1U);
  ASSERT_EQ(loops.nests[0].loops.size(), 1U);
  EXPECT_EQ(kinds(loops.nests[0].loops[0]), (std::vector{store}));
}

TEST(RowLoops, visits_queries_and_keys_in_nests_of_their_heads) {
  const RowLoops loops =
      loops_of(make_body("qk_norm_rope", {.width = 32, .heads = 14, .kv_heads = 2}));
  ASSERT_EQ(loops.nests.size(), 2U);
  EXPECT_EQ(loops.nests[0].heads, 14);
  EXPECT_EQ(loops.nests[1].heads, 2);
  EXPECT_EQ(loops.scratch_bytes, 0U);
}

TEST(RowLoops, visits_as_many_queries_as_keys_together) {
  const RowLoops loops =
      loops_of(make_body("qk_norm_rope", {.width = 32, .heads = 4, .kv_heads = 4}));
  EXPECT_EQ(loops.nests.size(), 1U);
}

// %0 may be stored over %a, but a later loop reads %a again.
TEST(RowLoops, writes_a_result_after_the_last_read_of_an_input_of_its_type) {
  const RowLoops loops = loops_of(program::parse(R"(program {
    input %a: bf16[T, 512]
    input %w: bf16[512]
    %0: bf16[T, 512] = add(%a, %a)
    %1: bf16[T, 512] = rms_norm(%0, %w) {epsilon=1e-06}
    %2: bf16[T, 512] = add(%1, %a)
    return %0, %2
  })"));
  EXPECT_EQ(kinds(loops.nests[0].loops[0]), (std::vector{keep, sum_squares}));
  EXPECT_EQ(kinds(loops.nests.back().loops.back()), (std::vector{store}));
  EXPECT_EQ(loops.scratch_bytes, 1024U);
}

TEST(RowLoops, refuses_what_it_has_no_words_for) {
  EXPECT_EQ(refusal_of(R"(program {
    input %x: bf16[T, 8]
    input %w: bf16[8, 8]
    %0: bf16[T, 8] = linear(%x, %w)
    return %0
  })"),
            "op linear");
  EXPECT_EQ(refusal_of(R"(program {
    input %x: bf16[T, 8]
    parameter p0: bf16[8]
    %0: bf16[T, 8] = rms_norm(%x, p0) {epsilon=1e-06}
    return %0
  })"),
            "a row group has inputs only, no parameters and no states");
  EXPECT_EQ(refusal_of(R"(program {
    input %x: bf16[T, 16384]
    input %y: bf16[T, 16384]
    input %w: bf16[16384]
    %0: bf16[T, 16384] = add(%x, %y)
    %1: bf16[T, 16384] = rms_norm(%0, %w) {epsilon=1e-06}
    %2: bf16[T, 16384] = rms_norm(%1, %w) {epsilon=1e-06}
    %3: bf16[T, 16384] = rms_norm(%2, %w) {epsilon=1e-06}
    %4: bf16[T, 16384] = rms_norm(%3, %w) {epsilon=1e-06}
    %5: bf16[T, 16384] = rms_norm(%4, %w) {epsilon=1e-06}
    return %5
  })"),
            "its loops need more than 24576 bytes per row");
  EXPECT_EQ(refusal_of(R"(program {
    input %x: bf16[T, 8]
    input %ids: i32[T]
    %0: bf16[T, 8] = add(%x, %x)
    %1: bf16[T, 8] = gather_rows(%0, %ids)
    return %1
  })"),
            "a table that is not an input");
}

}  // namespace
}  // namespace reprise::compile
