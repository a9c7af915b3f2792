#include "reprise/program/interpreter.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "reprise/program/verify.h"

namespace reprise::program {
namespace {

// Takes one size of one input into account.
class SymbolBinder {
 public:
  void bind(const std::string& input, const SymInt& size, int64_t actual) {
    if (size.is_constant()) {
      if (size.constant() != actual) fail(input, size, actual);
      return;
    }
    const int64_t rest = actual - size.constant();
    if (rest % size.coefficient() != 0 || rest / size.coefficient() < 0) fail(input, size, actual);
    const int64_t value = rest / size.coefficient();
    bool& is_bound = is_bound_[static_cast<size_t>(size.symbol())];
    if (is_bound && values_[size.symbol()] != value) fail(input, size, actual);
    is_bound = true;
    values_[size.symbol()] = value;
  }
  [[nodiscard]] const SymbolValues& values() const noexcept { return values_; }

 private:
  [[noreturn]] void fail(const std::string& input, const SymInt& size, int64_t actual) const {
    throw InvalidArgument(fmt::format("input '{}': size {} does not fit {}, with {} so far",
                                      input,
                                      actual,
                                      size.to_string(),
                                      values_.to_string()));
  }

  SymbolValues values_;
  std::array<bool, kSymbols.size() + 1> is_bound_{};
};

void require_types(const Program& program,
                   std::span<const ValueId> ids,
                   std::span<const Tensor> tensors,
                   const SymbolValues& values,
                   std::string_view kind) {
  REPRISE_ASSERT(ids.size() == tensors.size(), "{} {}, not {}", ids.size(), kind, tensors.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    const TensorType wanted = program.type(ids[i]).evaluate(values);
    REPRISE_ASSERT(tensors[i].type() == wanted,
                   "{} {}: {} instead of {}",
                   kind,
                   i,
                   tensors[i].type().to_string(),
                   wanted.to_string());
  }
}

}  // namespace

SymbolValues bind_symbols(const Program& program, std::span<const Tensor> inputs) {
  if (inputs.size() != program.inputs.size()) {
    throw InvalidArgument(
        fmt::format("the program takes {} inputs, not {}", program.inputs.size(), inputs.size()));
  }
  SymbolBinder binder;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ValueType& type = program.type(program.inputs[i].value);
    const std::string& name = program.inputs[i].name;
    if (inputs[i].dtype() != type.dtype || inputs[i].rank() != type.shape.rank()) {
      throw InvalidArgument(fmt::format(
          "input '{}' must be {}, not {}", name, type.to_string(), inputs[i].type().to_string()));
    }
    for (int dim = 0; dim < type.shape.rank(); ++dim) {
      binder.bind(name, type.shape[dim], inputs[i].size(dim));
    }
  }
  return binder.values();
}

Interpreter::Interpreter(const Program& program)
    : program_(&program), dead_(program.nodes.size()), tensors_(program.values.size()) {
  check(program);
  constexpr auto kNever = static_cast<size_t>(-1);
  std::vector<size_t> last_use(program.values.size(), kNever);
  for (size_t i = 0; i < program.nodes.size(); ++i) {
    for (ValueId id : program.nodes[i].outputs) last_use[index_of(id)] = i;
    for (ValueId id : program.nodes[i].inputs) {
      if (id != kNoValue) last_use[index_of(id)] = i;
    }
  }
  for (ValueId id : program.outputs) last_use[index_of(id)] = kNever;
  for (size_t i = 0; i < last_use.size(); ++i) {
    if (last_use[i] != kNever) dead_[last_use[i]].push_back(ValueId{static_cast<uint32_t>(i)});
  }
}

std::vector<Tensor> Interpreter::run(std::span<const Tensor> inputs,
                                     const SlotTensors& slots,
                                     const SymbolValues& values,
                                     OpExecutor& executor) {
  const Program& program = *program_;
  std::vector<ValueId> input_ids;
  for (const ProgramInput& input : program.inputs) input_ids.push_back(input.value);
  require_types(program, input_ids, inputs, values, "inputs");
  require_types(program, program.parameters, slots.parameters, values, "parameters");
  require_types(program, program.states, slots.states, values, "states");
  const auto set = [this](std::span<const ValueId> ids, std::span<const Tensor> tensors) {
    for (size_t i = 0; i < ids.size(); ++i) tensors_[index_of(ids[i])] = tensors[i];
  };
  set(input_ids, inputs);
  set(program.parameters, slots.parameters);
  set(program.states, slots.states);
  for (size_t i = 0; i < program.nodes.size(); ++i) {
    run_node(program.nodes[i], values, executor);
    for (ValueId id : dead_[i]) tensors_[index_of(id)] = Tensor{};
  }
  std::vector<Tensor> outputs;
  for (ValueId id : program.outputs) outputs.push_back(tensors_[index_of(id)]);
  // Nothing stays alive through the interpreter.
  std::fill(tensors_.begin(), tensors_.end(), Tensor{});
  return outputs;
}

void Interpreter::run_node(const Node& node, const SymbolValues& values, OpExecutor& executor) {
  operands_.clear();
  for (ValueId id : node.inputs) {
    operands_.push_back(id == kNoValue ? Tensor{} : tensors_[index_of(id)]);
  }
  const OpSignature signature = signature_of(node.op);
  std::array<Tensor, kMaxOpOutputs> results;
  const bool is_in_place = signature.writes_states || signature.out_buffer.has_value();
  const size_t num_results = is_in_place ? 0 : node.outputs.size();
  executor.execute(
      call_of(*program_, node, values), operands_, std::span(results).first(num_results));
  for (size_t i = 0; i < num_results; ++i)
    tensors_[index_of(node.outputs[i])] = std::move(results[i]);
  if (signature.writes_states) {
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      tensors_[index_of(node.outputs[i])] = operands_[signature.states[i]];
    }
  }
  if (signature.out_buffer) tensors_[index_of(node.outputs[0])] = operands_[*signature.out_buffer];
  operands_.clear();
}

}  // namespace reprise::program
