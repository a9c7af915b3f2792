#include "reprise/program/split.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "reprise/program/text.h"
#include "reprise/tensor/view.h"
#include "tests/support/program/program_fixture.h"

// Rows SPL-02 to SPL-09 of the behaviour reference, from vLLM's
// tests/compile/test_graph_partition.py. Two things differ. Here each result is a separate value,
// so no node picks an element of a tuple. And sizes are part of types, so no size is passed from
// piece to piece.
// SPL-11 (size() nodes), SPL-13 and SPL-14 (generated Python code) do not apply. SPL-15, SPL-16 and
// SPL-18 are about guards: see guarded_function_test.cpp. SPL-21 is about programs without symbols,
// which are ordinary programs here.
namespace reprise::program {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr SymbolValues kValues{6, 2, 2};

struct Split {
  Program whole;
  SplitProgram pieces;

  [[nodiscard]] const Program& program(size_t piece) const {
    return pieces.programs[pieces.pieces[piece].program];
  }
  [[nodiscard]] std::vector<std::string> ops(size_t piece) const {
    std::vector<std::string> names;
    for (const Node& node : program(piece).nodes) names.emplace_back(op_name(node.op));
    return names;
  }
  [[nodiscard]] std::vector<bool> splitting() const {
    std::vector<bool> flags;
    for (const Piece& piece : pieces.pieces) flags.push_back(piece.is_splitting);
    return flags;
  }
};

// Splits the program, and checks that the pieces compute the same as the whole program.
Split split_text(const std::string& text, const std::vector<OpCode>& ops) {
  Split result{.whole = program_of(text)};
  result.pieces = split(result.whole, ops);
  EXPECT_EQ(split_fingerprints(result.whole, ops, kValues), fingerprints(result.whole, kValues));
  return result;
}

TEST(Split, SPL_02_both_results_of_an_op_cross_split_points) {
  const Split split = split_text(R"(program {
  input %q: f32[T, 4, 16]
  input %positions: i32[T]
  parameter p0: f32[64, 16]
  parameter p1: f32[16]
  %0: f32[T, 4, 16], %1: f32[T, 4, 16] = rope(%q, %q, %positions, p0)
  %2: f32[T, 4, 16] = add(%0, %q)
  %3: f32[T, 4, 16] = rms_norm(%2, p1) {epsilon=1e-05}
  %4: f32[T, 4, 16] = add(%3, %1)
  return %4
})",
                                 {OpCode::rope, OpCode::rms_norm});
  EXPECT_THAT(split.splitting(), ElementsAre(true, false, true, false));
  EXPECT_THAT(split.pieces.pieces[0].outputs, ElementsAre(2, 3))
      << "each result is a value of its own";
  EXPECT_THAT(split.pieces.pieces[1].inputs, ElementsAre(2, 0));
  EXPECT_THAT(split.pieces.pieces[3].inputs, ElementsAre(5, 3));
}

TEST(Split, SPL_03_neighbouring_splitting_ops_share_a_piece) {
  const Split split = split_text(R"(program {
  input %x: f32[T, 16]
  parameter p0: f32[16]
  %0: f32[T, 16] = add(%x, %x)
  %1: f32[T, 16] = rms_norm(%0, p0) {epsilon=1e-05}
  %2: f32[T, 8] = silu_and_mul(%1)
  %3: f32[T, 8] = add(%2, %2)
  return %3
})",
                                 {OpCode::rms_norm, OpCode::silu_and_mul});
  EXPECT_THAT(split.splitting(), ElementsAre(false, true, false));
  EXPECT_THAT(split.ops(1), ElementsAre("rms_norm", "silu_and_mul"));
  EXPECT_EQ(split.program(1).inputs.size(), 1U);
  EXPECT_EQ(split.program(1).outputs.size(), 1U);
}

constexpr const char* kTwoAttentions = R"(
  input %x: f32[T, 4, 16]
  input %starts: i32[R+1]
  input %lens: i32[R]
  input %blocks: i32[R, 4]
  buffer %b: f32[T, 4, 16]
  state s0: f32[9, 2, 16, 16]
  state s1: f32[9, 2, 16, 16]
)";

TEST(Split, SPL_04_an_allocation_between_splitting_ops_stays_alone_with_nothing_before_it) {
  const Split split = split_text(std::string("program {") + kTwoAttentions + R"(
  %0: f32[T, 4, 16] = attention(%x, s0, s1, %starts, %lens, %blocks, %b) {scale=1}
  %1: f32[T, 4, 16] = empty()
  %2: f32[T, 4, 16] = attention(%0, s0, s1, %starts, %lens, %blocks, %1) {scale=1}
  return %2
  keep s0, s1
})",
                                 {OpCode::attention});
  EXPECT_THAT(split.splitting(), ElementsAre(true, false, true));
  EXPECT_THAT(split.ops(0), ElementsAre("attention"));
  EXPECT_THAT(split.ops(1), ElementsAre("empty"));
  EXPECT_THAT(split.ops(2), ElementsAre("attention"));
  EXPECT_EQ(split.pieces.pieces[0].program, split.pieces.pieces[2].program);
}

TEST(Split, SPL_05_an_allocation_between_splitting_ops_joins_the_capturable_piece_before) {
  const Split split = split_text(std::string("program {") + kTwoAttentions + R"(
  %0: f32[T, 4, 16] = add(%x, %x)
  %1: f32[T, 4, 16] = attention(%0, s0, s1, %starts, %lens, %blocks, %b) {scale=1}
  %2: f32[T, 4, 16] = empty()
  %3: f32[T, 4, 16] = attention(%1, s0, s1, %starts, %lens, %blocks, %2) {scale=1}
  %4: f32[T, 4, 16] = add(%3, %3)
  return %4
  keep s0, s1
})",
                                 {OpCode::attention});
  EXPECT_THAT(split.splitting(), ElementsAre(false, true, true, false));
  EXPECT_THAT(split.ops(0), ElementsAre("add", "empty"));
  EXPECT_THAT(split.ops(1), ElementsAre("attention"));
  EXPECT_THAT(split.ops(2), ElementsAre("attention"));
}

// SplitInterpreter verifies each piece as an independent program.
TEST(Split, SPL_07_and_08_sizes_stay_in_types_and_only_symbols_cross) {
  const Split split = split_text(R"(program {
  input %x: f32[2*T, 16]
  input %rows: i32[L]
  parameter p0: f32[16]
  %0: f32[2*T, 16] = rms_norm(%x, p0) {epsilon=1e-05}
  %1: f32[2*T, 8] = silu_and_mul(%0)
  %2: f32[L, 8] = gather_rows(%1, %rows)
  return %2
})",
                                 {OpCode::silu_and_mul});
  EXPECT_THAT(split.splitting(), ElementsAre(false, true, false));
  EXPECT_EQ(print(split.program(2)), R"(program {
  input %in0: f32[2*T, 8]
  input %in1: i32[L]
  %0: f32[L, 8] = gather_rows(%in0, %in1)
  return %0
}
)");
}

TEST(Split, SPL_09_one_size_is_used_by_two_later_pieces) {
  const Split split = split_text(R"(program {
  input %x: f32[T, 16]
  parameter p0: f32[16]
  %0: f32[T, 16] = rms_norm(%x, p0) {epsilon=1e-05}
  %1: f32[T, 16] = slice(%0) {dim=0, begin=0, length=T}
  %2: f32[T, 16] = add(%1, %x)
  %3: f32[T, 16] = rms_norm(%2, p0) {epsilon=1e-05}
  %4: f32[T, 16] = slice(%3) {dim=0, begin=0, length=T}
  %5: f32[T, 16] = add(%4, %x)
  return %5
})",
                                 {OpCode::rms_norm});
  EXPECT_THAT(split.splitting(), ElementsAre(true, false, true, false));
  EXPECT_EQ(split.pieces.programs.size(), 2U);
}

TEST(Split, makes_a_view_again_in_each_piece_that_uses_it) {
  const Split split = split_text(R"(program {
  input %x: f32[T, 32]
  parameter p0: f32[16]
  %0: f32[T, 32] = add(%x, %x)
  %1: f32[T, 16] = slice(%0) {dim=1, begin=16, length=16}
  %2: f32[T, 2, 8] = unflatten(%1) {heads=2}
  %3: f32[T, 16] = rms_norm(%1, p0) {epsilon=1e-05}
  %4: f32[T, 2, 8] = add(%2, %2)
  %5: f32[T, 16] = add(%1, %3)
  %6: f32[T, 2, 8] = unflatten(%5) {heads=2}
  return %4, %6
})",
                                 {OpCode::rms_norm});
  EXPECT_THAT(split.splitting(), ElementsAre(false, true, false));
  EXPECT_THAT(split.ops(0), ElementsAre("add")) << "views go where they are used";
  EXPECT_THAT(split.ops(1), ElementsAre("slice", "rms_norm"));
  EXPECT_THAT(split.ops(2), ElementsAre("slice", "unflatten", "add", "add", "unflatten"));
}

TEST(Split, makes_a_long_chain_of_views_again) {
  std::string text = "program {\n input %x: f32[T, 8]\n %0: f32[T, 8] = add(%x, %x)\n";
  constexpr int kLength = 20'000;
  for (int i = 1; i <= kLength; ++i) {
    text += fmt::format(" %{}: f32[T, 8] = slice(%{}) {{dim=0, begin=0, length=T}}\n", i, i - 1);
  }
  text += fmt::format(
      " %{}: f32[T, 4] = silu_and_mul(%{})\n return %{}\n}}", kLength + 1, kLength, kLength + 1);
  const SplitProgram pieces = split(program_of(text), std::vector{OpCode::silu_and_mul});
  ASSERT_EQ(pieces.pieces.size(), 2U);
  EXPECT_EQ(pieces.programs[1].nodes.size(), kLength + 1U);
}

TEST(Split, makes_one_piece_without_splitting_ops) {
  const Program program = random_program(3);
  const SplitProgram whole = split(program, {});
  ASSERT_EQ(whole.pieces.size(), 1U);
  EXPECT_FALSE(whole.pieces[0].is_splitting);
}

TEST(Split, lets_go_of_each_boundary_value_once_and_after_its_last_use) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    const Program program = random_program(seed);
    const SplitProgram pieces = split(program, std::vector{OpCode::attention, OpCode::linear});
    std::vector<int> died(pieces.num_boundary_values);
    for (const Piece& piece : pieces.pieces) {
      for (size_t value : piece.inputs) EXPECT_EQ(died[value], 0);
      for (size_t value : piece.dead) ++died[value];
    }
    for (size_t value : pieces.outputs) EXPECT_EQ(died[value], 0);
    for (size_t value = program.inputs.size(); value < died.size(); ++value) {
      const bool is_output =
          std::find(pieces.outputs.begin(), pieces.outputs.end(), value) != pieces.outputs.end();
      EXPECT_EQ(died[value], is_output ? 0 : 1);
    }
  }
}

TEST(Split, passes_only_dense_values_between_pieces) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    const Program program = random_program(seed);
    const SplitProgram pieces = split(program, std::vector{OpCode::attention, OpCode::rms_norm});
    for (size_t i = 0; i + 1 < pieces.pieces.size(); ++i) {
      const Program& piece = pieces.programs[pieces.pieces[i].program];
      for (const Node& node : piece.nodes) {
        if (!is_view(node.op)) continue;
        EXPECT_EQ(std::find(piece.outputs.begin(), piece.outputs.end(), node.outputs[0]),
                  piece.outputs.end());
      }
    }
  }
}

TEST(SplittingOps, are_named_as_we_or_vllm_name_them) {
  const auto codes = [](const std::vector<std::string>& names) {
    return parse_splitting_ops(names).codes;
  };
  EXPECT_THAT(codes({"attention"}), ElementsAre(OpCode::attention));
  EXPECT_THAT(codes({"vllm::unified_attention_with_output"}), ElementsAre(OpCode::attention));
  EXPECT_THAT(codes({"vllm::unified_attention_with_output.default"}),
              ElementsAre(OpCode::attention));
  for (const char* name : {"aiter.unified_attention_with_output",
                           "aiter::unified_attention_with_output",
                           "aiter.unified_attention_with_output.default"}) {
    EXPECT_THAT(codes({name}), ElementsAre(OpCode::attention)) << "ATOM's name " << name;
  }
  EXPECT_EQ(codes({"aiter.mla_attention"}), codes({"vllm::unified_mla_attention_with_output"}));
  EXPECT_EQ(codes({"aiter.mla_attention"}).size(), 1U);
  EXPECT_THAT(codes({"kv_write", "vllm::unified_kv_cache_update"}),
              ElementsAre(OpCode::kv_write, OpCode::kv_write));
  // All ops of a layer of linear attention are outside the pieces if any one of them is named.
  for (const char* name :
       {"vllm::mamba_mixer2", "vllm::mamba_mixer", "vllm::short_conv", "causal_conv1d"}) {
    EXPECT_THAT(codes({name}), ElementsAre(OpCode::selective_state_update)) << name;
  }
  EXPECT_THAT(codes({"vllm::linear_attention", "vllm::plamo2_mamba_mixer"}), ElementsAre());
  EXPECT_THAT(codes({}), ElementsAre());
  EXPECT_THROW((void)codes({"atention"}), InvalidArgument);
  EXPECT_THROW((void)codes({"slice"}), InvalidArgument);
}

}  // namespace
}  // namespace reprise::program
