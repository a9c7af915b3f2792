#include "tests/support/program/model_machine_fixture.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <utility>

#include "reprise/attention/attention_metadata.h"
#include "reprise/device/cpu/cpu_device.h"
#include "reprise/tensor/view.h"

namespace reprise::program {
namespace {

constexpr int64_t kBlockSize = 16;
constexpr int64_t kMaxBlocks = 4;
constexpr int64_t kNumBlocks = 64;
constexpr int32_t kVocab = 50;

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

}  // namespace

Machine::Machine(const MachineOptions& options)
    : device(device::create_cpu_device({.num_threads = options.num_threads, .pin_threads = false})),
      stream(device->create_stream()),
      pool(device->create_pool()),
      executor(*stream, *pool, kernels::kernel_table(options.isa)) {}

Tensor Machine::ints(const Shape& shape, std::vector<int32_t> values) {
  numbers_.push_back(std::move(values));
  numbers_.back().resize(static_cast<size_t>(std::max<int64_t>(shape.num_elements(), 1)));
  return Tensor::borrow({DType::i32, shape}, numbers_.back().data(), executor);
}

Bytes Machine::bytes_of(const Tensor& tensor) {
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

std::vector<Tensor> make_batch(Machine& machine,
                               const std::vector<Request>& requests,
                               int64_t padding) {
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

const std::vector<Batch>& all_batches() {
  static const std::vector<Batch> batches = {
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
  return batches;
}

ModelMachine::ModelMachine(const Architecture& architecture,
                           int num_layers,
                           DType dtype,
                           const MachineOptions& options)
    : Machine(options),
      config_(
          weights::parse_model_config(config_json(architecture, num_layers), "config.json").config),
      weights_(config_, /*seed=*/5),
      parameters_(weights_, dtype, *device, *stream, executor),
      model_(models::create_model(config_, config_.max_position_embeddings, parameters_)),
      cache_({.num_layers = config_.num_hidden_layers,
              .num_blocks = kNumBlocks,
              .num_kv_heads = config_.num_key_value_heads,
              .block_size = kBlockSize,
              .head_dim = config_.head_dim,
              .dtype = dtype},
             *device,
             executor) {
  for (attention::AttentionLayer* layer : model_->attention_layers())
    layer->bind_caches({.kv_cache = &cache_});
  stream->synchronize();
}

std::vector<Tensor> ModelMachine::forward(std::span<const Tensor> in) {
  const attention::AttentionMetadata metadata{.query_start_loc = in[kQueryStartLoc],
                                              .seq_lens = in[kSeqLens],
                                              .block_table = in[kBlockTable],
                                              .slot_mapping = in[kSlotMapping]};
  cudagraph::ForwardContext context{.stream = stream.get(), .attention = &metadata};
  const Tensor hidden = model_->forward(context, in[kInputIds], in[kPositions]);
  return {model_->compute_logits(hidden, in[kLogitsIndices], in[kNumLogits])};
}

TracedProgram ModelMachine::trace_model() {
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
    signature.states.emplace_back(cache_.keys(layer));
    signature.states.emplace_back(cache_.values(layer));
  }
  signature.parameter_memory = parameters_.memory();
  signature.name_of_parameter = [this](const Tensor& parameter) {
    return std::string(parameters_.name_of(parameter));
  };
  return trace(signature, [this](std::span<const Tensor> in) { return forward(in); });
}

void ModelMachine::fill_cache() {
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

bool has_kernels(const Program& program) {
  return std::all_of(program.nodes.begin(), program.nodes.end(), [&](const Node& node) {
    if (is_view(node.op) || node.op == OpCode::scaled_linear) return true;
    const auto num_read = static_cast<std::ptrdiff_t>(node.inputs.size()) -
                          (node.op == OpCode::attention_quant ? 1 : 0);
    return std::all_of(node.inputs.begin(), node.inputs.begin() + num_read, [&](ValueId id) {
      return id == kNoValue || dtype_bytes(program.type(id).dtype) > 1;
    });
  });
}

}  // namespace reprise::program
