#include "reprise/program/interpreter.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "reprise/program/verify.h"

namespace reprise::program {
namespace {

// Collects the values of the symbols, one tensor at a time.
class SymbolBinder {
 public:
  void bind(const std::string& input, const ValueType& type, const Tensor& tensor) {
    if (tensor.dtype() != type.dtype || tensor.layout() != type.layout ||
        tensor.rank() != type.shape.rank()) {
      throw InvalidArgument(fmt::format(
          "input '{}' must be {}, not {}", input, type.to_string(), tensor.type().to_string()));
    }
    for (int dim = 0; dim < type.shape.rank(); ++dim)
      bind(input, type.shape[dim], tensor.size(dim));
  }
  [[nodiscard]] const SymbolValues& values() const noexcept { return values_; }

 private:
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

SymbolValues bind_symbols(const Program& program,
                          std::span<const Tensor> inputs,
                          std::span<const Tensor> states) {
  if (inputs.size() != program.inputs.size()) {
    throw InvalidArgument(
        fmt::format("the program takes {} inputs, not {}", program.inputs.size(), inputs.size()));
  }
  SymbolBinder binder;
  for (size_t i = 0; i < inputs.size(); ++i) {
    binder.bind(program.inputs[i].name, program.type(program.inputs[i].value), inputs[i]);
  }
  for (size_t i = 0; i < std::min(states.size(), program.states.size()); ++i) {
    binder.bind("state", program.type(program.states[i]), states[i]);
  }
  return binder.values();
}

Interpreter::Interpreter(const Program& program, GroupCode code)
    : Interpreter((check(program), program), code, Checked::already) {}

Interpreter::Interpreter(const Program& program, GroupCode code, Checked)
    : program_(&program),
      code_(code),
      steps_(program.nodes.size()),
      tensors_(program.values.size()) {
  for (const ProgramInput& input : program.inputs) input_ids_.push_back(input.value);
  for (size_t i = 0; i < program.groups.size(); ++i) {
    const bool has_code = i < code.size() && code[i] != nullptr;
    groups_.push_back(
        has_code ? nullptr
                 : std::make_unique<Interpreter>(program.groups[i], GroupCode{}, Checked::already));
  }
  constexpr auto kNever = static_cast<size_t>(-1);
  std::vector<size_t> last_use(program.values.size(), kNever);
  for (size_t i = 0; i < program.nodes.size(); ++i) {
    steps_[i].signature = signature_of(program, program.nodes[i]);
    for (ValueId id : program.nodes[i].outputs) last_use[index_of(id)] = i;
    for (ValueId id : program.nodes[i].inputs) {
      if (id != kNoValue) last_use[index_of(id)] = i;
    }
  }
  for (ValueId id : program.outputs) last_use[index_of(id)] = kNever;
  for (size_t i = 0; i < last_use.size(); ++i) {
    if (last_use[i] != kNever)
      steps_[last_use[i]].dead.push_back(ValueId{static_cast<uint32_t>(i)});
  }
}

void Interpreter::run(std::span<const Tensor> inputs,
                      const SlotTensors& slots,
                      const SymbolValues& values,
                      OpExecutor& executor,
                      std::vector<Tensor>& outputs,
                      const PlannedResults& planned) {
  const Program& program = *program_;
  require_types(program, input_ids_, inputs, values, "inputs");
  require_types(program, program.parameters, slots.parameters, values, "parameters");
  require_types(program, program.states, slots.states, values, "states");
  const auto set = [this](std::span<const ValueId> ids, std::span<const Tensor> tensors) {
    for (size_t i = 0; i < ids.size(); ++i) tensors_[index_of(ids[i])] = tensors[i];
  };
  set(input_ids_, inputs);
  set(program.parameters, slots.parameters);
  set(program.states, slots.states);
  if (!is_prepared(values, executor, planned)) prepare(values, executor, planned);
  run_nodes(values, executor, {});
  outputs.clear();
  for (ValueId id : program.outputs) outputs.push_back(tensors_[index_of(id)]);
  // Release all tensors, so that none lives on until the next run.
  std::fill(tensors_.begin(), tensors_.end(), Tensor{});
}

bool Interpreter::is_prepared(const SymbolValues& values,
                              const OpExecutor& executor,
                              const PlannedResults& planned) const noexcept {
  return executor_ == &executor && values_ == values && planned_.arena == planned.arena &&
         planned_.placements.data() == planned.placements.data();
}

void Interpreter::prepare(const SymbolValues& values,
                          OpExecutor& executor,
                          const PlannedResults& planned) {
  for (size_t i = 0; i < steps_.size(); ++i) {
    Step& step = steps_[i];
    const Node& node = program_->nodes[i];
    step.call = call_of(*program_, node, values);
    for (size_t result = 0; result < step.signature.num_results; ++result) {
      step.memory[result] = {};
      if (planned.arena == nullptr) continue;
      const ValueId id = node.outputs[result];
      const std::optional<Placement>& placement = planned.placements[index_of(id)];
      if (!placement) continue;
      step.memory[result] = Tensor::borrow(program_->type(id).evaluate(values),
                                           planned.arena->address(*placement, values),
                                           executor);
    }
  }
  values_ = values;
  executor_ = &executor;
  planned_ = planned;
}

void Interpreter::run_nodes(const SymbolValues& values,
                            OpExecutor& executor,
                            std::span<const Tensor> destinations) {
  for (size_t i = 0; i < program_->nodes.size(); ++i) {
    run_step(i, values, executor, destinations);
    for (ValueId id : steps_[i].dead) tensors_[index_of(id)] = Tensor{};
  }
}

void Interpreter::run_step(size_t index,
                           const SymbolValues& values,
                           OpExecutor& executor,
                           std::span<const Tensor> destinations) {
  const Node& node = program_->nodes[index];
  const OpSignature& signature = steps_[index].signature;
  operands_.clear();
  for (ValueId id : node.inputs) {
    operands_.push_back(id == kNoValue ? Tensor{} : tensors_[index_of(id)]);
  }
  std::array<Tensor, kMaxOpOutputs> memory = steps_[index].memory;
  const std::span results = std::span(memory).first(signature.num_results);
  for (size_t i = 0; i < destinations.size(); ++i) {
    const auto result = std::find(node.outputs.begin(), node.outputs.end(), program_->outputs[i]);
    if (result != node.outputs.end()) {
      results[static_cast<size_t>(result - node.outputs.begin())] = destinations[i];
    }
  }
  if (node.op == OpCode::row_group) {
    run_group(node, values, executor, results);
  } else {
    executor.execute(steps_[index].call, operands_, results);
  }
  for (size_t i = 0; i < results.size(); ++i) {
    tensors_[index_of(node.outputs[i])] = std::move(results[i]);
  }
  if (signature.writes_states) {
    for (size_t i = 0; i < signature.states.size(); ++i) {
      tensors_[index_of(node.outputs[results.size() + i])] = operands_[signature.states[i]];
    }
  }
  if (signature.out_buffer) {
    tensors_[index_of(node.outputs.back())] = operands_[*signature.out_buffer];
  }
  operands_.clear();
}

void Interpreter::run_group(const Node& node,
                            const SymbolValues& values,
                            OpExecutor& executor,
                            std::span<Tensor> results) {
  const size_t group = node.attributes.group;
  if (groups_[group] == nullptr) {
    executor.execute({OpCode::row_group, {.row_group = code_[group]}}, operands_, results);
    return;
  }
  // The group has no code, so its ops run one by one. The executor allocates intermediate results.
  Interpreter& body = *groups_[group];
  for (size_t i = 0; i < operands_.size(); ++i) {
    body.tensors_[index_of(body.input_ids_[i])] = operands_[i];
  }
  if (!body.is_prepared(values, executor, {})) body.prepare(values, executor, {});
  body.run_nodes(values, executor, results);
  for (size_t i = 0; i < results.size(); ++i) {
    results[i] = body.tensors_[index_of(body.program_->outputs[i])];
  }
  std::fill(body.tensors_.begin(), body.tensors_.end(), Tensor{});
}

}  // namespace reprise::program
