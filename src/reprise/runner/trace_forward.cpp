#include "reprise/runner/trace_forward.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

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

using Reason = program::TraceError::Reason;

// The arguments of CausalLM::forward() that are tensors. All other inputs are in the context of a
// step, so declarations cannot name them.
constexpr std::array<std::string_view, 3> kModelArguments = {
    "input_ids", "positions", "hidden_states"};

[[noreturn]] void refuse(Reason reason, const std::string& message) {
  throw program::TraceError(reason, std::nullopt, "", "dynamic_arg_dims: " + message);
}

// Finds the argument that a declaration names.
const program::TraceInput& declared_argument(
    const CompileSupport::DynamicDim& declared,
    std::span<const program::TraceInput* const> arguments) {
  std::vector<std::string> names;
  for (const program::TraceInput* argument : arguments) {
    if (argument->name == declared.argument) return *argument;
    names.push_back(argument->name);
  }
  refuse(Reason::declaration,
         fmt::format("no argument of the model is called '{}'; there are {}",
                     declared.argument,
                     fmt::join(names, ", ")));
}

// The index of a declared dimension. It must be a dimension that changes with the batch.
int declared_dim(const CompileSupport::DynamicDim& declared, const program::TraceInput& argument) {
  const int rank = argument.type.shape.rank();
  const int dim = declared.dim < 0 ? declared.dim + rank : declared.dim;
  if (dim < 0 || dim >= rank) {
    refuse(Reason::declaration,
           fmt::format(
               "'{}' has {} dimensions, and no dimension {}", argument.name, rank, declared.dim));
  }
  if (argument.type.shape[dim].is_constant()) {
    refuse(Reason::declaration,
           fmt::format("dimension {} of '{}' is {} in every batch",
                       dim,
                       argument.name,
                       argument.type.shape[dim].constant()));
  }
  return dim;
}

}  // namespace

void require_open_tokens(const CompileSupport& support, const program::TraceSignature& signature) {
  if (support.dynamic_arg_dims.empty()) return;
  std::vector<const program::TraceInput*> arguments;
  for (const program::TraceInput& input : signature.inputs) {
    if (std::ranges::find(kModelArguments, input.name) != kModelArguments.end()) {
      arguments.push_back(&input);
    }
  }
  std::vector<std::pair<std::string, int>> open;
  for (const CompileSupport::DynamicDim& declared : support.dynamic_arg_dims) {
    const program::TraceInput& argument = declared_argument(declared, arguments);
    open.emplace_back(argument.name, declared_dim(declared, argument));
  }
  for (const program::TraceInput* argument : arguments) {
    for (int dim = 0; dim < argument->type.shape.rank(); ++dim) {
      if (argument->type.shape[dim].is_constant()) continue;
      if (std::ranges::find(open, std::pair(argument->name, dim)) != open.end()) continue;
      refuse(Reason::shape,
             fmt::format("dimension {} of '{}' is not declared, so a program serves one number of "
                         "tokens; declare it, or run level 1, which traces each number of tokens",
                         dim,
                         argument->name));
    }
  }
}

program::TraceSignature at_num_tokens(program::TraceSignature signature, int64_t num_tokens) {
  const program::SymbolValues values{.num_tokens = num_tokens};
  for (program::TraceInput& input : signature.inputs) {
    program::SymShape shape;
    for (const SymInt& size : input.type.shape.sizes()) {
      const bool is_fixed = size.symbol() == Symbol::num_tokens;
      shape.push_back(is_fixed ? SymInt(size.evaluate(values)) : size);
    }
    input.type.shape = shape;
  }
  return signature;
}

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
    signature.inputs.emplace_back("state_indices",
                                  ints({Symbol::num_reqs, caches.states->layout().slots_per_req}));
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
