// Runs real models on real kernels, and expects that a program computes the model's bits.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <random>
#include <set>

#include "reprise/program/interpreter.h"
#include "reprise/program/split.h"
#include "reprise/program/text.h"
#include "tests/support/program/model_machine_fixture.h"
#include "tests/support/program/program_fixture.h"

namespace reprise::program {
namespace {

using testing::HasSubstr;

const std::vector<OpCode> kAttention = {OpCode::attention};

class PerArchitecture : public testing::TestWithParam<std::tuple<size_t, DType>> {
 protected:
  [[nodiscard]] static const Architecture& architecture() {
    return kArchitectures[std::get<0>(GetParam())];
  }
  [[nodiscard]] static DType dtype() { return std::get<1>(GetParam()); }
};

TEST_P(PerArchitecture, interpreted_whole_and_in_pieces_computes_what_the_model_computes) {
  ModelMachine machine(architecture(), 3, dtype());
  const TracedProgram traced = machine.trace_model();
  Interpreter whole(traced.program);
  const SplitProgram pieces = split(traced.program, kAttention);
  SplitInterpreter in_pieces(pieces);
  std::set<Bytes> seen;
  for (const Batch& batch : all_batches()) {
    SCOPED_TRACE(batch.name);
    const std::vector<Tensor> inputs = make_batch(machine, batch.requests, batch.padding);
    const auto direct = machine.result_of([&] { return machine.forward(inputs); });
    EXPECT_TRUE(machine.result_of(
                    [&] { return whole.run(inputs, traced.slots, machine.executor); }) == direct);
    EXPECT_TRUE(machine.result_of([&] {
      return in_pieces.run(
          inputs, traced.slots, bind_symbols(traced.program, inputs), machine.executor);
    }) == direct);
    seen.insert(direct);
  }
  EXPECT_EQ(seen.size(), all_batches().size()) << "results must depend on the batch";
}

TEST_P(PerArchitecture, the_program_comes_back_from_its_text_and_is_traced_the_same_again) {
  ModelMachine machine(architecture(), 2, dtype());
  const std::string text = print(machine.trace_model().program);
  EXPECT_EQ(print(parse(text)), text);
  EXPECT_EQ(print(machine.trace_model().program), text);
}

INSTANTIATE_TEST_SUITE_P(Models,
                         PerArchitecture,
                         testing::Combine(testing::Range(size_t{0}, kArchitectures.size()),
                                          testing::Values(DType::bf16, DType::f32)),
                         [](const auto& param_info) {
                           return fmt::format("{}_{}",
                                              kArchitectures[std::get<0>(param_info.param)].name,
                                              dtype_name(std::get<1>(param_info.param)));
                         });

TEST(ModelProgram, reads_like_the_model) {
  ModelMachine machine(kArchitectures[3], 1);
  const std::string text = print(machine.trace_model().program);
  EXPECT_THAT(text, HasSubstr(R"(
  %0: bf16[T, 64] = embedding(%input_ids, p0)  // model.embed_tokens
  %1: bf16[T, 64] = rms_norm(%0, p1) {epsilon=1e-06}  // model.layers.0.input_layernorm
  %2: bf16[T, 128] = linear(%1, p2)  // model.layers.0.self_attn.q_proj+k_proj+v_proj
  %3: bf16[T, 64] = slice(%2) {dim=1, begin=0, length=64}
  %4: bf16[T, 4, 16] = unflatten(%3) {heads=4}
)"));
  EXPECT_THAT(text, HasSubstr("%14: s0, %15: s1 = kv_write(%12, %8, s0, s1, %slot_mapping)\n"));
  EXPECT_THAT(text, HasSubstr("rope(%9, %10, %positions, p5)\n"));
  EXPECT_THAT(text, HasSubstr("f32[L, 50] = lm_head("));
}

TEST(ModelProgram, shares_a_tied_weight_as_one_slot) {
  ModelMachine tied(kArchitectures[0], 1);
  const Program program = tied.trace_model().program;
  EXPECT_EQ(program.nodes.back().op, OpCode::lm_head);
  EXPECT_EQ(program.nodes.back().inputs[1], program.parameters[0]);
}

TEST(ModelProgram, keeps_no_more_memory_alive_than_the_model) {
  ModelMachine machine(kArchitectures[0], 3);
  const TracedProgram traced = machine.trace_model();
  Interpreter interpreter(traced.program);
  const std::vector<Tensor> inputs = make_batch(machine, {{60, 0}});
  const auto peak_of = [&](const std::function<void()>& run) {
    const std::unique_ptr<device::MemoryPool> pool = machine.device->create_pool();
    const kernels::PoolScope scope(machine.executor, *pool);
    run();
    machine.stream->synchronize();
    return pool->peak_live_bytes();
  };
  const size_t direct = peak_of([&] { (void)machine.forward(inputs); });
  const size_t interpreted =
      peak_of([&] { (void)interpreter.run(inputs, traced.slots, machine.executor); });
  EXPECT_LE(interpreted, direct);
  EXPECT_GT(interpreted, 0U);
}

TEST(ModelPieces, of_a_dense_model_are_three_unique_ones_around_attention) {
  for (int layers : {1, 2, 6, 24}) {
    SCOPED_TRACE(layers);
    ModelMachine machine(kArchitectures[2], layers);
    const SplitProgram pieces = split(machine.trace_model().program, kAttention);
    EXPECT_EQ(pieces.pieces.size(), static_cast<size_t>(2 * layers + 1));
    EXPECT_EQ(pieces.num_capturable_pieces(), static_cast<size_t>(layers + 1));
    // A model of one layer has a first piece and a last piece, but no piece between two attentions.
    EXPECT_EQ(pieces.num_unique_capturable_pieces(), layers == 1 ? 2U : 3U);
    EXPECT_EQ(pieces.programs.size(), pieces.num_unique_capturable_pieces() + 1) << "one attention";
    for (const Piece& piece : pieces.pieces) {
      const Program& program = pieces.programs[piece.program];
      EXPECT_EQ(piece.is_splitting, program.nodes[0].op == OpCode::attention);
      if (piece.is_splitting) {
        EXPECT_EQ(program.nodes.size(), 1U);
      }
    }
  }
}

TEST(ModelPieces, CNT_22_twelve_layers_are_25_pieces_of_which_13_are_capturable) {
  ModelMachine machine(kArchitectures[0], 12);
  const TracedProgram traced = machine.trace_model();
  const SplitProgram pieces =
      split(traced.program,
            parse_splitting_ops(std::vector<std::string>{"vllm::unified_attention_with_output"}));
  EXPECT_EQ(pieces.pieces.size(), 25U);
  EXPECT_EQ(pieces.num_capturable_pieces(), 13U);
  EXPECT_EQ(pieces.num_unique_capturable_pieces(), 3U);
  SplitInterpreter interpreter(pieces);
  const std::vector<Tensor> inputs = make_batch(machine, all_batches()[5].requests);
  const auto direct = machine.result_of([&] { return machine.forward(inputs); });
  EXPECT_TRUE(machine.result_of([&] {
    return interpreter.run(
        inputs, traced.slots, bind_symbols(traced.program, inputs), machine.executor);
  }) == direct);
}

TEST(ModelPieces, CNT_20_without_splitting_ops_there_is_one_piece) {
  ModelMachine machine(kArchitectures[0], 12);
  const SplitProgram pieces = split(machine.trace_model().program, {});
  EXPECT_EQ(pieces.pieces.size(), 1U);
  EXPECT_EQ(pieces.num_capturable_pieces(), 1U);
}

TEST(ModelPieces, keep_the_cache_write_before_attention_or_split_it_off_too) {
  ModelMachine machine(kArchitectures[1], 4);
  const Program program = machine.trace_model().program;
  const auto writes = [](const SplitProgram& pieces, bool in_splitting) {
    size_t count = 0;
    for (const Piece& piece : pieces.pieces) {
      for (const Node& node : pieces.programs[piece.program].nodes) {
        count += node.op == OpCode::kv_write && piece.is_splitting == in_splitting ? 1 : 0;
      }
    }
    return count;
  };
  EXPECT_EQ(writes(split(program, kAttention), false), 4U);
  const SplitProgram both = split(program, std::vector{OpCode::attention, OpCode::kv_write});
  EXPECT_EQ(writes(both, true), 4U);
  EXPECT_EQ(both.pieces.size(), 9U) << "write and attention are neighbours";
}

// Compares random programs on real kernels before and after a split. Tests of passes do the same.
TEST(RandomProgramsOnKernels, compute_the_same_twice_and_in_pieces) {
  Machine machine;
  const std::vector<Tensor> inputs = make_batch(machine, {{3, 0}, {1, 20}, {2, 9}}, 1);
  // lm_head writes only the rows below num_logits, here all seven.
  const SymbolValues values{7, 4, 3};
  *inputs[kNumLogits].data_as<int32_t>() = 1 << 20;
  for (uint32_t seed = 0; seed < 300; ++seed) {
    const DType dtype = seed % 2 == 0 ? DType::f32 : DType::bf16;
    const Program program =
        random_program(seed, {.dtype = dtype, .collectives = false, .num_steps = 10});
    if (!has_kernels(program)) continue;
    std::deque<std::vector<uint16_t>> memory;
    const auto run = [&](const auto& interpret) {
      std::mt19937 random(seed);
      memory.clear();
      const auto make = [&](ValueId id) {
        const TensorType type = program.type(id).evaluate(values);
        memory.emplace_back(type.bytes() / 2 + 1);
        // Two bytes 0x3E00 to 0x3FFF: a bf16 number around 1, or the high half of an f32 around 1.
        for (uint16_t& half : memory.back())
          half = static_cast<uint16_t>(0x3E00 + random() % 0x200);
        return Tensor::borrow(type, memory.back().data(), machine.executor);
      };
      SlotTensors slots;
      for (ValueId id : program.parameters) slots.parameters.push_back(make(id));
      for (ValueId id : program.states) slots.states.push_back(make(id));
      std::vector<Bytes> found;
      for (const Tensor& output : interpret(slots)) {
        const Tensor& dense = output;
        if (dense.is_dense()) found.push_back(machine.bytes_of(dense));
      }
      for (const Tensor& state : slots.states) found.push_back(machine.bytes_of(state));
      return found;
    };
    Interpreter whole(program);
    const SplitProgram pieces = split(program, kAttention);
    SplitInterpreter in_pieces(pieces);
    const auto first = run([&](const SlotTensors& slots) {
      return whole.run(inputs, slots, values, machine.executor);
    });
    const auto second = run([&](const SlotTensors& slots) {
      return whole.run(inputs, slots, values, machine.executor);
    });
    const auto third = run([&](const SlotTensors& slots) {
      return in_pieces.run(inputs, slots, values, machine.executor);
    });
    ASSERT_TRUE(first == second) << "seed " << seed << "\n" << print(program);
    ASSERT_TRUE(first == third) << "seed " << seed << "\n" << print(program);
  }
}

}  // namespace
}  // namespace reprise::program
