// Real models and random programs on real kernels: passes change no bit of what is computed.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <iostream>
#include <memory>
#include <random>

#include "reprise/attention/attention_backend.h"
#include "reprise/compile/decompose_fixture.h"
#include "reprise/compile/pipeline.h"
#include "reprise/device/cpu/cpu_device.h"
#include "reprise/device/cpu/cpu_features.h"
#include "reprise/kernels/eager_executor.h"
#include "reprise/kernels/isa.h"
#include "reprise/kv_cache/kv_cache_tensors.h"
#include "reprise/models/causal_lm.h"
#include "reprise/program/interpreter.h"
#include "reprise/program/program_fixture.h"
#include "reprise/program/split.h"
#include "reprise/program/text.h"
#include "reprise/program/trace.h"
#include "reprise/tensor/view.h"
#include "reprise/weights/dummy_weights.h"
#include "reprise/weights/model_config.h"

namespace reprise::compile {
namespace {

using program::Program;
using program::SlotTensors;
using program::SymbolValues;
using program::SymInt;
using program::TracedProgram;
using program::ValueId;

using Bytes = std::vector<std::byte>;

constexpr int64_t kBlockSize = 16;
constexpr int64_t kMaxBlocks = 4;
constexpr int64_t kNumBlocks = 40;
constexpr int32_t kVocab = 50;  // ids of random programs are below it too

class Machine {
 public:
  explicit Machine(kernels::Isa isa = kernels::best_isa(device::detect_cpu_features()))
      : device(device::create_cpu_device({.num_threads = 1, .pin_threads = false})),
        stream(device->create_stream()),
        pool(device->create_pool()),
        executor(*stream, *pool, kernels::kernel_table(isa)) {}

  Tensor ints(const Shape& shape, std::vector<int32_t> values) {
    numbers_.push_back(std::move(values));
    numbers_.back().resize(static_cast<size_t>(shape.num_elements()));
    return Tensor::borrow({DType::i32, shape}, numbers_.back().data(), executor);
  }
  // Rows of it, if it is a view.
  Bytes bytes_of(const Tensor& tensor) {
    stream->synchronize();
    const size_t element_bytes = dtype_bytes(tensor.dtype());
    Bytes bytes;
    const auto append = [&](int64_t offset, int64_t count) {
      const auto* begin = tensor.data_as<std::byte>() + static_cast<size_t>(offset) * element_bytes;
      bytes.insert(bytes.end(), begin, begin + static_cast<size_t>(count) * element_bytes);
    };
    if (tensor.rank() == 2) {
      for (int64_t i = 0; i < tensor.size(0); ++i) append(i * tensor.stride(0), tensor.size(1));
    } else if (tensor.rank() == 3) {
      for (int64_t i = 0; i < tensor.size(0); ++i) {
        for (int64_t j = 0; j < tensor.size(1); ++j) {
          append(i * tensor.stride(0) + j * tensor.stride(1), tensor.size(2));
        }
      }
    } else {
      EXPECT_TRUE(tensor.is_dense()) << tensor.type().to_string();
      append(0, tensor.num_elements());
    }
    return bytes;
  }

  std::unique_ptr<device::Device> device;
  std::unique_ptr<device::Stream> stream;
  std::unique_ptr<device::MemoryPool> pool;
  kernels::EagerExecutor executor;

 private:
  std::deque<std::vector<int32_t>> numbers_;
};

struct Request {
  int32_t query_len = 1;
  int32_t computed = 0;  // positions in the cache before this step
};

enum Input : size_t {
  kInputIds,
  kPositions,
  kSlotMapping,
  kQueryStartLoc,
  kSeqLens,
  kBlockTable,
  kLogitsIndices,
  kNumLogits
};

// `padding` more rows of tokens and of requests than there are.
std::vector<Tensor> make_batch(Machine& machine,
                               const std::vector<Request>& requests,
                               int64_t padding = 0) {
  std::vector<int32_t> ids, positions, slots, starts = {0}, lens, blocks, rows;
  int32_t next_block = 1;
  for (const Request& request : requests) {
    const int32_t first_block = next_block;
    const int32_t len = request.computed + request.query_len;
    for (int64_t block = 0; block < kMaxBlocks; ++block) {
      blocks.push_back(block * kBlockSize < len ? next_block++ : 0);
    }
    for (int32_t position = request.computed; position < len; ++position) {
      ids.push_back((static_cast<int32_t>(ids.size()) * 13 + 5) % kVocab);
      positions.push_back(position);
      slots.push_back(first_block * static_cast<int32_t>(kBlockSize) + position);
    }
    starts.push_back(static_cast<int32_t>(ids.size()));
    lens.push_back(len);
    rows.push_back(static_cast<int32_t>(ids.size()) - 1);
  }
  const auto num_tokens = static_cast<int64_t>(ids.size()) + padding;
  const auto num_reqs = static_cast<int64_t>(requests.size()) + padding;
  const auto num_rows = static_cast<int64_t>(rows.size());
  slots.resize(static_cast<size_t>(num_tokens), -1);
  starts.resize(static_cast<size_t>(num_reqs) + 1, starts.back());
  return {machine.ints({num_tokens}, ids),
          machine.ints({num_tokens}, positions),
          machine.ints({num_tokens}, slots),
          machine.ints({num_reqs + 1}, starts),
          machine.ints({num_reqs}, lens),
          machine.ints({num_reqs, kMaxBlocks}, blocks),
          machine.ints({num_rows}, rows),
          machine.ints({1}, {static_cast<int32_t>(num_rows)})};
}

struct Architecture {
  const char* name;
  const char* members;  // of config.json, besides the common ones
};
constexpr std::array kArchitectures = {
    Architecture{"Llama",
                 R"("model_type": "llama", "num_key_value_heads": 4, "tie_word_embeddings": true)"},
    Architecture{"Mistral",
                 R"("model_type": "mistral", "num_key_value_heads": 2, "sliding_window": 9)"},
    Architecture{"Qwen2", R"("model_type": "qwen2", "num_key_value_heads": 1)"},
    Architecture{"Qwen3", R"("model_type": "qwen3", "num_key_value_heads": 2)"}};

class ModelMachine : public Machine {
 public:
  ModelMachine(const Architecture& architecture,
               int num_layers,
               DType dtype,
               kernels::Isa isa = kernels::best_isa(device::detect_cpu_features()))
      : Machine(isa),
        config_(weights::parse_model_config(fmt::format(R"({{"architectures": ["{}ForCausalLM"], {},
                      "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": {},
                      "num_attention_heads": 4, "head_dim": 16, "vocab_size": {},
                      "max_position_embeddings": 64, "rms_norm_eps": 1e-6,
                      "rope_theta": 10000.0, "hidden_act": "silu"}})",
                                                        architecture.name,
                                                        architecture.members,
                                                        num_layers,
                                                        kVocab),
                                            "config.json")
                    .config),
        backend_(attention::create_unified_backend()),
        weights_(config_, /*seed=*/5),
        parameters_(weights_, dtype, *device, *stream, executor),
        model_(
            models::create_model(config_, config_.max_position_embeddings, parameters_, *backend_)),
        cache_({.num_layers = config_.num_hidden_layers,
                .num_blocks = kNumBlocks,
                .num_kv_heads = config_.num_key_value_heads,
                .block_size = kBlockSize,
                .head_dim = config_.head_dim,
                .dtype = dtype},
               *device,
               executor) {
    for (attention::AttentionLayer* layer : model_->attention_layers()) layer->bind_cache(&cache_);
    stream->synchronize();
  }

  TracedProgram trace() {
    using program::Symbol;
    program::TraceSignature signature;
    signature.inputs = {{"input_ids", {DType::i32, {Symbol::num_tokens}}},
                        {"positions", {DType::i32, {Symbol::num_tokens}}},
                        {"slot_mapping", {DType::i32, {Symbol::num_tokens}}},
                        {"query_start_loc", {DType::i32, {SymInt(Symbol::num_reqs, 1, 1)}}},
                        {"seq_lens", {DType::i32, {Symbol::num_reqs}}},
                        {"block_table", {DType::i32, {Symbol::num_reqs, kMaxBlocks}}},
                        {"logits_indices", {DType::i32, {Symbol::num_logits}}},
                        {"num_logits", {DType::i32, {1}}}};
    for (int64_t layer = 0; layer < config_.num_hidden_layers; ++layer) {
      signature.states.push_back(cache_.keys(layer));
      signature.states.push_back(cache_.values(layer));
    }
    signature.parameter_memory = parameters_.memory();
    return program::trace(signature, [this](std::span<const Tensor> in) { return forward(in); });
  }

  // Logits and cache after a run that starts with the same cache as every other.
  template <typename Run>
  Bytes result_of(Run&& run) {
    stream->synchronize();
    std::mt19937 random(3);
    auto* const halves = static_cast<uint16_t*>(cache_.memory().data);
    const size_t num_halves = cache_.memory().bytes / 2;
    for (size_t i = 0; i < num_halves; ++i) {
      halves[i] = static_cast<uint16_t>(((random() & 1) << 15) | (0x3E00 + random() % 0x180));
    }
    Bytes bytes = bytes_of(run().front());
    const auto* cache = static_cast<const std::byte*>(cache_.memory().data);
    bytes.insert(bytes.end(), cache, cache + cache_.memory().bytes);
    return bytes;
  }

 private:
  std::vector<Tensor> forward(std::span<const Tensor> in) {
    const attention::AttentionMetadata metadata{.query_start_loc = in[kQueryStartLoc],
                                                .seq_lens = in[kSeqLens],
                                                .block_table = in[kBlockTable],
                                                .slot_mapping = in[kSlotMapping]};
    cudagraph::ForwardContext context{.stream = stream.get(), .attention = &metadata};
    const Tensor hidden = model_->forward(context, in[kInputIds], in[kPositions]);
    return {model_->compute_logits(hidden, in[kLogitsIndices], in[kNumLogits])};
  }

  weights::ModelConfig config_;
  std::unique_ptr<attention::AttentionBackend> backend_;
  weights::DummyWeights weights_;
  models::Parameters parameters_;
  std::unique_ptr<models::CausalLM> model_;
  kv_cache::KvCacheTensors cache_;
};

struct Batch {
  const char* name;
  std::vector<Request> requests;
  int64_t padding = 0;
};
const std::vector<Batch> kBatches = {
    {"one token", {{1, 0}}},
    {"prompts", {{5, 0}, {32, 0}, {1, 0}, {9, 0}}},
    {"decode", {{1, 3}, {1, 17}, {1, 0}, {1, 62}, {1, 31}, {1, 15}, {1, 16}}},
    {"mixed", {{1, 20}, {1, 2}, {33, 0}, {1, 47}}},
    {"padded", {{1, 20}, {4, 2}, {1, 7}}, 5},
};

// What one CPU runs with code generation, the longest list. Groups without code run op by op.
PassOptions all_passes() {
  return {.rope_kvcache_fusion_max_token_num = 0, .fuse_gemm_epilogues = true, .group_rows = true};
}

class CompiledModel : public testing::TestWithParam<std::tuple<size_t, DType, kernels::Isa>> {};

TEST_P(CompiledModel, computes_the_bits_of_the_traced_one_after_each_pass) {
  const auto [architecture, dtype, isa] = GetParam();
  ModelMachine machine(kArchitectures[architecture], 3, dtype, isa);
  const TracedProgram traced = machine.trace();
  for (const Batch& batch : kBatches) {
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

// Level 3 compiles pieces, not the whole.
TEST_P(CompiledModel, computes_the_same_bits_when_its_pieces_are_compiled) {
  const auto [architecture, dtype, isa] = GetParam();
  ModelMachine machine(kArchitectures[architecture], 3, dtype, isa);
  const TracedProgram traced = machine.trace();
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
  for (const Batch& batch : kBatches) {
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

// vLLM counts matches per model in rows PAS-01 to PAS-12, which all are of quantisation or of
// several devices: see match_counts_test.cpp. What one device has to fuse without quantisation:
TEST(CompiledModels, have_matches_for_each_layer) {
  for (const Architecture& architecture : kArchitectures) {
    for (int num_layers : {1, 2, 6}) {
      SCOPED_TRACE(fmt::format("{}, {} layers", architecture.name, num_layers));
      const auto n = static_cast<size_t>(num_layers);
      const bool has_qk_norm = std::string(architecture.name) == "Qwen3";
      ModelMachine machine(architecture, num_layers, DType::bf16);
      Program program = machine.trace().program;
      const PipelineReport report = make_pipeline(all_passes()).run(program);
      EXPECT_EQ(report.num_matches("fuse_add_rms_norm"), 2 * n);
      EXPECT_EQ(report.num_matches("fuse_qk_norm_rope_kv_write"), has_qk_norm ? n : 0);
      EXPECT_EQ(report.num_matches("fuse_rope_kv_write"), has_qk_norm ? 0 : n);
      EXPECT_EQ(report.num_matches("fuse_linear_rope_kv_write"), n);
      EXPECT_EQ(report.num_matches("fuse_linear_silu_and_mul"), n);
      EXPECT_EQ(report.num_matches("fuse_linear_add"), 0U) << "the norms have all sums";
      EXPECT_EQ(report.num_matches("sink_norm_below_gather"), 1U);
      EXPECT_EQ(report.num_matches("group_rows"), 2U) << "the first and the last norm";
      // The model code wastes nothing.
      EXPECT_EQ(report.num_matches("eliminate_noops"), 0U);
      EXPECT_EQ(report.num_matches("eliminate_common_subexpressions"), 0U);
      EXPECT_EQ(report.num_matches("eliminate_dead_code"), 0U);
    }
  }
}

// Nodes that are work for the device; a group is one launch once it has code.
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
    const TracedProgram traced = machine.trace();
    // embedding, gather, lm_head, last norm; per layer 2 norms, 4 products, rope, write, attention,
    // silu_and_mul, 2 sums, and with Qwen3 2 norms of heads.
    const size_t per_layer = std::string(architecture.name) == "Qwen3" ? 14 : 12;
    EXPECT_EQ(num_launches(traced.program), 4 + kLayers * per_layer);
    PassOptions options = all_passes();
    options.group_rows = false;
    Program without_code = traced.program;
    (void)make_pipeline(options).run(without_code);
    // 2 norms, 3 products besides attention's, attention and what feeds it.
    EXPECT_EQ(num_launches(without_code), 4 + kLayers * 7);
    Program compiled = traced.program;
    const PipelineReport report = make_pipeline(all_passes()).run(compiled);
    // The first norm is in the launch of embedding, the last one in that of gather.
    EXPECT_EQ(num_launches(compiled), 2 + kLayers * 7);
    if (&architecture == kArchitectures.data()) std::cout << report.to_string();
    // The executor agrees.
    const std::vector<Tensor> inputs = make_batch(machine, {{1, 20}});
    const uint64_t begin = machine.executor.num_launches();
    (void)program::Interpreter(without_code).run(inputs, traced.slots, machine.executor);
    EXPECT_EQ(machine.executor.num_launches() - begin, num_launches(without_code));
  }
}

// Random programs also do with eight-bit values what only floats have kernels for.
bool has_kernels(const Program& program) {
  return std::all_of(program.nodes.begin(), program.nodes.end(), [&](const program::Node& node) {
    if (is_view(node.op) || node.op == OpCode::scaled_linear) return true;
    const size_t num_read = node.inputs.size() - (node.op == OpCode::attention_quant ? 1 : 0);
    return std::all_of(node.inputs.begin(), node.inputs.begin() + num_read, [&](ValueId id) {
      return id == program::kNoValue || dtype_bytes(program.type(id).dtype) > 1;
    });
  });
}

TEST(RandomPrograms, compute_the_same_bits_after_the_pipeline) {
  Machine machine(kernels::Isa::scalar);
  const std::vector<Tensor> inputs = make_batch(machine, {{3, 0}, {1, 20}, {2, 9}}, 1);
  const SymbolValues values{7, 4, 3};
  // Rows beyond this count hold anything; here all are wanted.
  *inputs[kNumLogits].data_as<int32_t>() = 7;
  const Pipeline pipeline = make_pipeline(all_passes());
  std::vector<size_t> num_matches(pipeline.passes().size());
  for (uint32_t seed = 0; seed < 5'000; ++seed) {
    const DType dtype = seed % 2 == 0 ? DType::f32 : DType::bf16;
    const Program made =
        program::random_program(seed / 4, {.dtype = dtype, .collectives = false, .num_steps = 14});
    // Half of them with nothing fused, so that there is all the more to fuse.
    const Program before = seed % 4 < 2 ? made : decomposed(made);
    if (!has_kernels(before)) continue;
    const auto results_of = [&](const Program& program) {
      std::mt19937 random(seed);
      std::deque<std::vector<uint16_t>> memory;
      // Numbers around 1 in bf16, and in f32 with any low half.
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
    EXPECT_GT(num_matches[i], 10U) << pipeline.passes()[i].name << " is hardly tested";
  }
}

}  // namespace
}  // namespace reprise::compile
