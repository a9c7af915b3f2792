// Runs real models and random programs on real kernels, and expects that passes change no bit of
// the results.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <iostream>
#include <random>

#include "reprise/compile/pipeline.h"
#include "reprise/device/cpu/cpu_features.h"
#include "reprise/kernels/isa.h"
#include "reprise/program/interpreter.h"
#include "reprise/program/split.h"
#include "reprise/program/text.h"
#include "reprise/tensor/view.h"
#include "tests/support/compile/decompose_fixture.h"
#include "tests/support/program/model_machine_fixture.h"
#include "tests/support/program/program_fixture.h"

namespace reprise::compile {
namespace {

using program::all_batches;
using program::Architecture;
using program::Batch;
using program::Bytes;
using program::kArchitectures;
using program::Machine;
using program::make_batch;
using program::ModelMachine;
using program::Program;
using program::SlotTensors;
using program::SymbolValues;
using program::TracedProgram;
using program::ValueId;

// All passes that exist for a single CPU with code generation. Groups without code run op by op.
PassOptions all_passes() {
  return {.rope_kvcache_fusion_max_token_num = 0, .fuse_gemm_epilogues = true, .group_rows = true};
}

class CompiledModel : public testing::TestWithParam<std::tuple<size_t, DType, kernels::Isa>> {};

TEST_P(CompiledModel, computes_the_bits_of_the_traced_one_after_each_pass) {
  const auto [architecture, dtype, isa] = GetParam();
  ModelMachine machine(kArchitectures[architecture], 3, dtype, {.isa = isa, .num_threads = 1});
  const TracedProgram traced = machine.trace_model();
  for (const Batch& batch : all_batches()) {
    SCOPED_TRACE(batch.name);
    const std::vector<Tensor> inputs = make_batch(machine, batch.requests, batch.padding);
    const auto result_of = [&](const Program& program) {
      program::Interpreter interpreter(program);
      return machine.result_of(
          [&] { return interpreter.run(inputs, traced.slots, machine.executor); });
    };
    const Bytes before = result_of(traced.program);
    Program program = traced.program;
    const Pipeline pipeline = make_pipeline(all_passes());
    for (const Pass& pass : pipeline.passes()) {
      (void)Pipeline({pass}).run(program);
      ASSERT_TRUE(result_of(program) == before) << pass.name << "\n" << program::print(program);
    }
  }
}

// At level 3 each piece is compiled separately.
TEST_P(CompiledModel, computes_the_same_bits_when_its_pieces_are_compiled) {
  const auto [architecture, dtype, isa] = GetParam();
  ModelMachine machine(kArchitectures[architecture], 3, dtype, {.isa = isa, .num_threads = 1});
  const TracedProgram traced = machine.trace_model();
  const std::vector splitting_ops = {OpCode::attention};
  const program::SplitProgram pieces = program::split(traced.program, splitting_ops);
  program::SplitProgram compiled = pieces;
  size_t num_fused = 0;
  for (Program& piece : compiled.programs) {
    num_fused += make_pipeline(all_passes()).run(piece).num_matches("fuse_add_rms_norm");
  }
  EXPECT_EQ(num_fused, 4U) << "two in the middle piece and two in the last one";
  program::SplitInterpreter before(pieces);
  program::SplitInterpreter after(compiled);
  for (const Batch& batch : all_batches()) {
    const std::vector<Tensor> inputs = make_batch(machine, batch.requests, batch.padding);
    const SymbolValues values = program::bind_symbols(traced.program, inputs);
    const auto result_of = [&](program::SplitInterpreter& interpreter) {
      return machine.result_of(
          [&] { return interpreter.run(inputs, traced.slots, values, machine.executor); });
    };
    EXPECT_TRUE(result_of(after) == result_of(before)) << batch.name;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models,
    CompiledModel,
    testing::Combine(testing::Range(size_t{0}, kArchitectures.size()),
                     testing::Values(DType::bf16, DType::f32),
                     testing::ValuesIn(kernels::supported_isas(device::detect_cpu_features()))),
    [](const auto& param_info) {
      return fmt::format("{}_{}_{}",
                         kArchitectures[std::get<0>(param_info.param)].name,
                         dtype_name(std::get<1>(param_info.param)),
                         kernels::isa_name(std::get<2>(param_info.param)));
    });

// vLLM's numbers of matches per model (PAS-01 to PAS-12) need quantisation or several devices: see
// match_counts_test.cpp. This test counts the fusions on one device without quantisation.
TEST(CompiledModels, have_matches_for_each_layer) {
  for (const Architecture& architecture : kArchitectures) {
    for (int num_layers : {1, 2, 6}) {
      SCOPED_TRACE(fmt::format("{}, {} layers", architecture.name, num_layers));
      const auto n = static_cast<size_t>(num_layers);
      const bool has_qk_norm = std::string(architecture.name) == "Qwen3";
      ModelMachine machine(architecture, num_layers, DType::bf16);
      Program program = machine.trace_model().program;
      const PipelineReport report = make_pipeline(all_passes()).run(program);
      EXPECT_EQ(report.num_matches("fuse_add_rms_norm"), 2 * n);
      EXPECT_EQ(report.num_matches("fuse_qk_norm_rope_kv_write"), has_qk_norm ? n : 0);
      EXPECT_EQ(report.num_matches("fuse_rope_kv_write"), has_qk_norm ? 0 : n);
      EXPECT_EQ(report.num_matches("fuse_linear_rope_kv_write"), n);
      EXPECT_EQ(report.num_matches("fuse_linear_silu_and_mul"), n);
      EXPECT_EQ(report.num_matches("fuse_linear_add"), 0U) << "the norms have all sums";
      EXPECT_EQ(report.num_matches("sink_norm_below_gather"), 1U);
      EXPECT_EQ(report.num_matches("group_rows"), 2U) << "the first and the last norm";
      // The models contain no superfluous ops.
      EXPECT_EQ(report.num_matches("eliminate_noops"), 0U);
      EXPECT_EQ(report.num_matches("eliminate_common_subexpressions"), 0U);
      EXPECT_EQ(report.num_matches("eliminate_dead_code"), 0U);
    }
  }
}

// Nodes that are work for the device; a group with code is one launch.
size_t num_launches(const Program& program) {
  return static_cast<size_t>(
      std::count_if(program.nodes.begin(), program.nodes.end(), [](const program::Node& node) {
        return node.op != OpCode::empty && !is_view(node.op);
      }));
}

TEST(CompiledModels, launch_less_for_each_step) {
  constexpr size_t kLayers = 6;
  for (const Architecture& architecture : kArchitectures) {
    SCOPED_TRACE(architecture.name);
    ModelMachine machine(architecture, kLayers, DType::bf16);
    const TracedProgram traced = machine.trace_model();
    // The 4 launches outside of layers: embedding, gather, lm_head and the last norm. The launches
    // per layer: 2 norms, 4 products, rope, write, attention, silu_and_mul, 2 sums, and for Qwen3
    // also the 2 norms of heads.
    const size_t per_layer = std::string(architecture.name) == "Qwen3" ? 14 : 12;
    EXPECT_EQ(num_launches(traced.program), 4 + kLayers * per_layer);
    PassOptions options = all_passes();
    options.group_rows = false;
    Program without_code = traced.program;
    (void)make_pipeline(options).run(without_code);
    // Seven launches per layer: 2 norms, 3 products, attention, and one launch that computes its q,
    // k and v.
    EXPECT_EQ(num_launches(without_code), 4 + kLayers * 7);
    Program compiled = traced.program;
    const PipelineReport report = make_pipeline(all_passes()).run(compiled);
    // The first norm is now part of the embedding's launch, and the last norm is part of the
    // gather's.
    EXPECT_EQ(num_launches(compiled), 2 + kLayers * 7);
    if (&architecture == kArchitectures.data()) std::cout << report.to_string();
    // The executor launches the same number of kernels.
    const std::vector<Tensor> inputs = make_batch(machine, {{1, 20}});
    const uint64_t begin = machine.executor.num_launches();
    (void)program::Interpreter(without_code).run(inputs, traced.slots, machine.executor);
    EXPECT_EQ(machine.executor.num_launches() - begin, num_launches(without_code));
  }
}

// If matrix products include the norm before them, and sums become part of the product before them,
// each layer needs five launches.
TEST(CompiledModels, launch_five_times_a_layer_for_few_rows_where_there_are_kernels_for_it) {
  constexpr size_t kLayers = 3;
  PassOptions options = all_passes();
  options.group_rows = false;
  options.range = {1, 8};
  options.prefer_linear_add = true;
  options.norm_prologue_max_token_num = 8;
  for (const Architecture& architecture : kArchitectures) {
    SCOPED_TRACE(architecture.name);
    ModelMachine machine(architecture, kLayers, DType::bf16);
    const TracedProgram traced = machine.trace_model();
    const std::vector<Tensor> inputs = make_batch(machine, {{1, 20}, {3, 0}});
    const auto result_of = [&](const Program& program) {
      program::Interpreter interpreter(program);
      return machine.result_of(
          [&] { return interpreter.run(inputs, traced.slots, machine.executor); });
    };
    const Bytes before = result_of(traced.program);
    Program compiled = traced.program;
    const PipelineReport report = make_pipeline(options).run(compiled);
    EXPECT_EQ(report.num_matches("fuse_rms_norm_linear"), 2 * kLayers + 1);
    // The 3 other launches are embedding, gather and lm_head.
    EXPECT_EQ(num_launches(compiled), 3 + kLayers * 5);
    EXPECT_TRUE(result_of(compiled) == before) << program::print(compiled);
    // Programs for more rows do not use these kernels.
    options.range.end = 9;
    Program others = traced.program;
    EXPECT_EQ(make_pipeline(options).run(others).num_matches("fuse_rms_norm_linear"), 0U);
    options.range.end = 8;
  }
}

TEST(RandomPrograms, compute_the_same_bits_after_the_pipeline) {
  Machine machine({.isa = kernels::Isa::scalar, .num_threads = 1});
  const std::vector<Tensor> inputs = make_batch(machine, {{3, 0}, {1, 20}, {2, 9}}, 1);
  const SymbolValues values{7, 4, 3};
  // Rows beyond this count are undefined, so the test asks for all rows: experts multiply them.
  *inputs[program::kNumLogits].data_as<int32_t>() = 1 << 20;
  const Pipeline pipeline = make_pipeline(all_passes());
  std::vector<size_t> num_matches(pipeline.passes().size());
  for (uint32_t seed = 0; seed < 5'000; ++seed) {
    const DType dtype = seed % 2 == 0 ? DType::f32 : DType::bf16;
    const Program made =
        program::random_program(seed / 4, {.dtype = dtype, .collectives = false, .num_steps = 14});
    // Half of the programs are decomposed first (fused ops become single ops), so that the passes
    // have more to fuse.
    const Program before = seed % 4 < 2 ? made : decomposed(made);
    if (!program::has_kernels(before)) continue;
    const auto results_of = [&](const Program& program) {
      std::mt19937 random(seed);
      std::deque<std::vector<uint16_t>> memory;
      // Two bytes 0x3E00 to 0x3FFF: a bf16 number around 1, or the high half of an f32 around 1.
      const auto make = [&](ValueId id) {
        const TensorType type = program.type(id).evaluate(values);
        memory.emplace_back((type.bytes() + 1) / 2);
        const bool is_narrow = dtype_bytes(type.dtype) == 1;
        for (uint16_t& half : memory.back()) {
          half = static_cast<uint16_t>(is_narrow ? random() & 0x3F3F : 0x3E00 + random() % 0x200);
        }
        return Tensor::borrow(type, memory.back().data(), machine.executor);
      };
      SlotTensors slots;
      for (ValueId id : program.parameters) slots.parameters.push_back(make(id));
      for (ValueId id : program.states) slots.states.push_back(make(id));
      std::vector<Bytes> results;
      program::Interpreter interpreter(program);
      for (const Tensor& output : interpreter.run(inputs, slots, values, machine.executor)) {
        results.push_back(machine.bytes_of(output));
      }
      for (const Tensor& state : slots.states) results.push_back(machine.bytes_of(state));
      return results;
    };
    Program after = before;
    const PipelineReport report = pipeline.run(after);
    for (size_t i = 0; i < num_matches.size(); ++i) num_matches[i] += report.passes[i].num_matches;
    ASSERT_TRUE(results_of(after) == results_of(before))
        << "seed " << seed << "\n"
        << program::print(before) << program::print(after);
  }
  for (size_t i = 0; i < num_matches.size(); ++i) {
    // Random shapes are too small for the rows of whole blocks that packed weights need.
    if (pipeline.passes()[i].name == "fuse_block_linear") continue;
    EXPECT_GT(num_matches[i], 10U) << pipeline.passes()[i].name << " is hardly tested";
  }
}

}  // namespace
}  // namespace reprise::compile
