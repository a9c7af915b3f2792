#include "reprise/runner/trace_forward.h"

#include <fmt/format.h>

#include <utility>

#include "reprise/attention/attention_metadata.h"
#include "reprise/base/error.h"

namespace reprise::runner {
namespace {

using program::Symbol;
using program::SymInt;

program::ValueType cache_type(const Tensor& cache) {
  program::ValueType type = program::constant_type(cache.type());
  program::SymShape open;
  open.push_back(Symbol::num_blocks);
  for (int dim = 1; dim < type.shape.rank(); ++dim) open.push_back(type.shape[dim]);
  return {type.dtype, open};
}

bool has_states(const attention::LayerCaches& caches) {
  return caches.states != nullptr && !caches.states->tensors().empty();
}

}  // namespace

program::TraceSignature forward_signature(const models::Parameters& parameters,
                                          const attention::LayerCaches& caches,
                                          int32_t max_blocks_per_req,
                                          int64_t hidden_input_size,
                                          bool has_encoder) {
  const auto ints = [](program::SymShape shape) { return program::ValueType{DType::i32, shape}; };
  program::TraceSignature signature;
  signature.inputs = {{"input_ids", ints({Symbol::num_tokens})},
                      {"positions", ints({Symbol::num_tokens})},
                      {"slot_mapping", ints({Symbol::num_tokens})},
                      {"query_start_loc", ints({SymInt(Symbol::num_reqs, 1, 1)})},
                      {"seq_lens", ints({Symbol::num_reqs})},
                      {"block_table", ints({Symbol::num_reqs, max_blocks_per_req})},
                      {"logits_indices", ints({Symbol::num_logits})},
                      {"num_logits", ints({1})}};
  for (const Tensor& cache : caches.kv_cache->tensors()) {
    signature.states.emplace_back(cache, cache_type(cache));
  }
  if (has_states(caches)) {
    signature.inputs.emplace_back("state_indices", ints({Symbol::num_reqs}));
    for (const Tensor& state : caches.states->tensors()) {
      signature.states.emplace_back(state, program::constant_type(state.type()));
    }
  }
  if (has_encoder) {
    signature.inputs.emplace_back("encoder_lens", ints({Symbol::num_reqs}));
    signature.inputs.emplace_back("encoder_block_table",
                                  ints({Symbol::num_reqs, max_blocks_per_req}));
  }
  if (hidden_input_size > 0) {
    signature.inputs.emplace_back(
        "hidden_states",
        program::ValueType{parameters.dtype(), {Symbol::num_tokens, hidden_input_size}});
  }
  for (const Tensor& counter : caches.counters) {
    signature.states.emplace_back(counter, program::constant_type(counter.type()));
  }
  signature.parameter_memory = parameters.memory();
  signature.name_of_parameter = [&parameters](const Tensor& parameter) {
    return std::string(parameters.name_of(parameter));
  };
  return signature;
}

program::TracedFunction forward_function(models::CausalLM& model, Tensor adapter_slots) {
  return [&model, adapter_slots = std::move(adapter_slots)](std::span<const Tensor> inputs) {
    attention::AttentionMetadata metadata{.query_start_loc = inputs[kQueryStartLoc],
                                          .seq_lens = inputs[kSeqLens],
                                          .block_table = inputs[kBlockTable],
                                          .slot_mapping = inputs[kSlotMapping]};
    cudagraph::ForwardContext context{.attention = &metadata, .adapter_slots = adapter_slots};
    if (model.hidden_input_size() > 0) {
      context.hidden_states = inputs[kHiddenStates];
    } else if (model.has_encoder()) {
      metadata.encoder_lens = inputs[kEncoderLens];
      metadata.encoder_block_table = inputs[kEncoderBlockTable];
    } else if (inputs.size() > kStateIndices) {
      metadata.state_indices = inputs[kStateIndices];
    }
    const Tensor hidden = model.forward(context, inputs[kInputIds], inputs[kPositions]);
    std::vector results{model.compute_logits(hidden, inputs[kLogitsIndices], inputs[kNumLogits])};
    if (context.auxiliary.defined()) results.push_back(context.auxiliary);
    return results;
  };
}

std::vector<program::ParameterSlot> parameter_slots(const program::TracedProgram& traced,
                                                    const models::Parameters& parameters) {
  std::vector<program::ParameterSlot> slots;
  for (const Tensor& parameter : traced.slots.parameters) {
    slots.push_back({.name = std::string(parameters.name_of(parameter)),
                     .type = program::constant_type(parameter.type())});
  }
  return slots;
}

program::SlotTensors bind_slots(const program::CompiledProgram& program,
                                const models::Parameters& parameters,
                                const attention::LayerCaches& caches,
                                OpExecutor& executor) {
  program::SlotTensors slots;
  for (const program::ParameterSlot& slot : program.parameters) {
    const TensorType type = slot.type.evaluate({});
    const device::BufferView memory = parameters.find(slot.name);
    if (memory.data == nullptr || memory.bytes != type.bytes()) {
      throw InvalidArgument(fmt::format("the program wants parameter '{}' of {}; this model {}",
                                        slot.name,
                                        type.to_string(),
                                        memory.data == nullptr
                                            ? "has none of that name"
                                            : fmt::format("has one of {} bytes", memory.bytes)));
    }
    slots.parameters.push_back(Tensor::borrow(type, memory.data, executor));
  }
  slots.states.assign(caches.kv_cache->tensors().begin(), caches.kv_cache->tensors().end());
  if (has_states(caches)) {
    const std::span<const Tensor> states = caches.states->tensors();
    slots.states.insert(slots.states.end(), states.begin(), states.end());
  }
  slots.states.insert(slots.states.end(), caches.counters.begin(), caches.counters.end());
  if (program.num_states != slots.states.size()) {
    throw InvalidArgument(fmt::format("the program has {} cache tensors, this model {}",
                                      program.num_states,
                                      slots.states.size()));
  }
  return slots;
}

}  // namespace reprise::runner
