// Real models, real kernels: what a program computes is what the model computes, bit for bit.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <memory>
#include <numeric>
#include <random>
#include <set>

#include "reprise/attention/attention_backend.h"
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
#include "reprise/weights/dummy_weights.h"
#include "reprise/weights/model_config.h"

namespace reprise::program {
namespace {

using testing::HasSubstr;

constexpr int64_t kBlockSize = 16;
constexpr int64_t kMaxBlocks = 4;
constexpr int64_t kNumBlocks = 64;
constexpr int32_t kVocab = 97;
const std::vector<OpCode> kAttention = {OpCode::attention};

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

std::string config_json(const Architecture& architecture, int num_layers) {
  return fmt::format(R"({{"architectures": ["{}ForCausalLM"], {},
    "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": {}, "num_attention_heads": 4,
    "head_dim": 16, "vocab_size": {}, "max_position_embeddings": 64, "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0, "hidden_act": "silu"}})",
                     architecture.name,
                     architecture.members,
                     num_layers,
                     kVocab);
}

// A device and whatever integers a batch needs.
class Machine {
 public:
  Machine()
      : device(device::create_cpu_device({.num_threads = 2, .pin_threads = false})),
        stream(device->create_stream()),
        pool(device->create_pool()),
        executor(*stream,
                 *pool,
                 kernels::kernel_table(kernels::best_isa(device::detect_cpu_features()))) {}

  Tensor ints(const Shape& shape, std::vector<int32_t> values) {
    numbers_.push_back(std::move(values));
    numbers_.back().resize(static_cast<size_t>(std::max<int64_t>(shape.num_elements(), 1)));
    return Tensor::borrow({DType::i32, shape}, numbers_.back().data(), executor);
  }
  std::vector<std::byte> bytes_of(const Tensor& tensor) {
    stream->synchronize();
    const auto* data = tensor.data_as<std::byte>();
    return {data, data + tensor.type().bytes()};
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

// The inputs of a traced model, in order.
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

// `padding` more rows of tokens and of requests than the batch has.
std::vector<Tensor> make_batch(Machine& machine,
                               const std::vector<Request>& requests,
                               int64_t padding = 0) {
  std::mt19937 random(11);
  std::vector<int32_t> ids, positions, slots, starts = {0}, lens, blocks, rows;
  int32_t next_block = 1;
  for (const Request& request : requests) {
    const int32_t first_block = next_block;
    const int32_t len = request.computed + request.query_len;
    for (int64_t block = 0; block < kMaxBlocks; ++block) {
      blocks.push_back(block * kBlockSize < len ? next_block++ : 0);
    }
    for (int32_t position = request.computed; position < len; ++position) {
      ids.push_back(static_cast<int32_t>(random() % kVocab));
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

class ModelMachine : public Machine {
 public:
  ModelMachine(const Architecture& architecture, int num_layers, DType dtype = DType::bf16)
      : config_(weights::parse_model_config(config_json(architecture, num_layers), "config.json")
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

  // The model itself; eager or traced is the inputs' business.
  std::vector<Tensor> forward(std::span<const Tensor> in) {
    const attention::AttentionMetadata metadata{.query_start_loc = in[kQueryStartLoc],
                                                .seq_lens = in[kSeqLens],
                                                .block_table = in[kBlockTable],
                                                .slot_mapping = in[kSlotMapping]};
    cudagraph::ForwardContext context{.stream = stream.get(), .attention = &metadata};
    const Tensor hidden = model_->forward(context, in[kInputIds], in[kPositions]);
    return {model_->compute_logits(hidden, in[kLogitsIndices], in[kNumLogits])};
  }

  TracedProgram trace_model() {
    TraceSignature signature;
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
    signature.name_of_parameter = [this](const Tensor& parameter) {
      return std::string(parameters_.name_of(parameter));
    };
    return trace(signature, [this](std::span<const Tensor> in) { return forward(in); });
  }

  // Logits and cache after a run from the same earlier cache.
  template <typename Run>
  std::vector<std::byte> result_of(Run&& run) {
    fill_cache();
    std::vector<std::byte> bytes = bytes_of(run().front());
    const auto* cache = static_cast<const std::byte*>(cache_.memory().data);
    bytes.insert(bytes.end(), cache, cache + cache_.memory().bytes);
    return bytes;
  }

 private:
  // Contexts of requests that were not run: small numbers of both signs.
  void fill_cache() {
    stream->synchronize();
    std::mt19937 random(3);
    const size_t bytes = cache_.memory().bytes;
    if (cache_.layout().dtype == DType::f32) {
      auto* values = static_cast<float*>(cache_.memory().data);
      for (size_t i = 0; i < bytes / 4; ++i)
        values[i] = static_cast<float>(random() % 2001) / 1000.0F - 1.0F;
      return;
    }
    auto* values = static_cast<uint16_t*>(cache_.memory().data);
    for (size_t i = 0; i < bytes / 2; ++i) {
      values[i] = static_cast<uint16_t>(((random() & 1) << 15) | (0x3E00 + random() % 0x180));
    }
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
    {"one prompt", {{31, 0}}},
    {"prompts", {{5, 0}, {32, 0}, {1, 0}, {9, 0}}},
    {"decode of one", {{1, 40}}},
    {"decode", {{1, 3}, {1, 17}, {1, 0}, {1, 63}, {1, 31}, {1, 15}, {1, 16}}},
    {"mixed", {{1, 20}, {1, 2}, {33, 0}, {1, 47}}},
    {"chunked", {{16, 16}, {7, 30}, {1, 9}, {20, 1}}},
    {"padded", {{1, 20}, {4, 2}, {1, 7}}, 5},
    {"decode over hundreds of rows of padding", {{1, 3}, {1, 4}}, 260},
};

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
  std::set<std::vector<std::byte>> seen;
  for (const Batch& batch : kBatches) {
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
  EXPECT_EQ(seen.size(), kBatches.size()) << "results must depend on the batch";
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
  %2: bf16[T, 128] = linear(%1, p2, none)  // model.layers.0.self_attn.q_proj+k_proj+v_proj
  %3: bf16[T, 64] = slice(%2) {dim=1, begin=0, length=64}
  %4: bf16[T, 4, 16] = unflatten(%3) {heads=4}
)"));
  EXPECT_THAT(text, HasSubstr("%14: s0, %15: s1 = kv_write(%12, %8, s0, s1, %slot_mapping)\n"));
  EXPECT_THAT(text, HasSubstr("rope(%9, %10, %positions, p5)\n"));
  EXPECT_THAT(text, HasSubstr("f32[L, 97] = lm_head("));
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
    // One layer has no middle.
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
  const std::vector<Tensor> inputs = make_batch(machine, kBatches[5].requests);
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

// The oracle of later passes: random programs on real kernels.
TEST(RandomProgramsOnKernels, compute_the_same_twice_and_in_pieces) {
  Machine machine;
  const std::vector<Tensor> inputs = make_batch(machine, {{3, 0}, {1, 20}, {2, 9}}, 1);
  // Rows beyond the number of logits are left as they are; here all are wanted.
  const SymbolValues values{7, 4, 3};
  *inputs[kNumLogits].data_as<int32_t>() = 7;
  for (uint32_t seed = 0; seed < 300; ++seed) {
    const DType dtype = seed % 2 == 0 ? DType::f32 : DType::bf16;
    const Program program = random_program(seed, {.dtype = dtype, .num_steps = 10});
    std::deque<std::vector<uint16_t>> memory;
    const auto run = [&](const auto& interpret) {
      std::mt19937 random(seed);
      memory.clear();
      const auto make = [&](ValueId id) {
        const TensorType type = program.type(id).evaluate(values);
        memory.emplace_back(type.bytes() / 2 + 1);
        // Numbers around 1 in bf16, and in f32 with any low half.
        for (uint16_t& half : memory.back())
          half = static_cast<uint16_t>(0x3E00 + random() % 0x200);
        return Tensor::borrow(type, memory.back().data(), machine.executor);
      };
      SlotTensors slots;
      for (ValueId id : program.parameters) slots.parameters.push_back(make(id));
      for (ValueId id : program.states) slots.states.push_back(make(id));
      std::vector<std::vector<std::byte>> found;
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
