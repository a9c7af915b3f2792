#include "reprise/compile/report/split_outline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "tests/support/program/program_fixture.h"

namespace reprise::compile {
namespace {

using program::program_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

std::vector<size_t> unfold(const std::vector<size_t>& sequence) {
  std::vector<size_t> unfolded;
  for (const PieceRun& run : fold_runs(sequence)) {
    for (size_t repeat = 0; repeat < run.count; ++repeat) {
      for (size_t i = 0; i < run.period; ++i) unfolded.push_back(sequence[run.begin + i]);
    }
  }
  return unfolded;
}

TEST(SplitOutline, folds_equal_layers_into_one_run) {
  EXPECT_THAT(
      fold_runs({0, 1, 2, 1, 2, 1, 2, 1, 3}),
      ElementsAre(PieceRun{0, 1, 1}, PieceRun{1, 2, 3}, PieceRun{7, 1, 1}, PieceRun{8, 1, 1}));
  EXPECT_THAT(fold_runs({5, 5, 5}), ElementsAre(PieceRun{0, 1, 3}));
  EXPECT_THAT(fold_runs({}), ElementsAre());
}

TEST(SplitOutline, a_pattern_of_several_layers_is_one_run) {
  // Three repetitions of this pattern: two layers with a sliding window, then one layer without.
  EXPECT_THAT(fold_runs({1, 2, 1, 2, 3, 2, 1, 2, 1, 2, 3, 2, 1, 2, 1, 2, 3, 2}),
              ElementsAre(PieceRun{0, 6, 3}));
}

TEST(SplitOutline, runs_cover_every_sequence_without_gaps) {
  uint32_t state = 1;
  for (size_t length = 0; length < 40; ++length) {
    std::vector<size_t> sequence;
    for (size_t i = 0; i < length; ++i) {
      state = state * 1664525 + 1013904223;
      sequence.push_back((state >> 16) % 3);
    }
    EXPECT_EQ(unfold(sequence), sequence);
  }
}

TEST(SplitOutline, order_is_told_by_programs) {
  program::SplitProgram split;
  for (size_t program : {0, 1, 2, 1, 2, 1, 2, 1, 3}) split.pieces.push_back({.program = program});
  EXPECT_EQ(describe_order(split), "0, 3 x (1 2), 1, 3");
}

constexpr const char* kGroupedPiece = R"(
    program {
      group g0 {
        input %x0: f32[T, 8]
        input %x1: f32[8]
        %0: f32[T, 8], %1: f32[T, 8] = fused_add_rms_norm(%x0, %x0, %x1) {epsilon=1e-05}
        return %0
      }
      input %x: f32[T, 8]
      parameter p0: f32[8]
      %0: f32[T, 8] = row_group(%x, p0) {group=g0}  // model.norm
      return %0
    }
  )";

TEST(SplitOutline, ops_are_printed_with_their_groups_and_places_but_without_slots) {
  const std::string text = print_ops(program_of(R"(
    program {
      group g0 {
        input %x0: f32[T, 8]
        %0: f32[T, 8] = add(%x0, %x0)
        return %0
      }
      input %x: f32[T, 8]
      parameter p0: f32[8]
      %0: f32[T, 8] = row_group(%x) {group=g0}  // model.norm
      return %0
    }
  )"));
  EXPECT_THAT(text, HasSubstr("group g0 {"));
  EXPECT_THAT(text, HasSubstr("input %x0"));
  EXPECT_THAT(text, HasSubstr("// model.norm"));
  EXPECT_THAT(text, HasSubstr("return %0"));
  EXPECT_THAT(text, Not(HasSubstr("parameter")));
  EXPECT_THAT(text, Not(HasSubstr("input %x:")));
  EXPECT_THAT(text, Not(HasSubstr("program {")));
}

TEST(SplitOutline, a_launch_has_the_parts_it_was_fused_from) {
  const program::Program program = program_of(kGroupedPiece);
  EXPECT_THAT(parts_of(program, program.nodes[0]), ElementsAre("add", "rms_norm"));
  program::Node node{.op = OpCode::linear_rope_kv_write};
  node.inputs.assign(11, program::kNoValue);
  EXPECT_THAT(parts_of(program, node), ElementsAre("linear", "rope", "kv_write"));
  node.inputs[8] = node.inputs[9] = program::ValueId{0};
  EXPECT_THAT(parts_of(program, node),
              ElementsAre("linear", "rms_norm", "rms_norm", "rope", "kv_write"));
  node.op = OpCode::attention;
  EXPECT_THAT(parts_of(program, node), ElementsAre("attention"));
}

}  // namespace
}  // namespace reprise::compile
