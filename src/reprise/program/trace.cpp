#include "reprise/program/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <map>
#include <utility>

#include "reprise/program/verify.h"
#include "reprise/tensor/op.h"
#include "reprise/tensor/view.h"

namespace reprise::program {
namespace {

using Reason = TraceError::Reason;

// No 0, no 1, nothing round: sizes that code has no reason to treat specially. No symbol is affine
// in another over them, so every size has one explanation. The last two are smaller and larger than
// any threshold that a model is likely to compare with.
constexpr std::array kHints = {SymbolValues{7, 3, 2, 19},
                               SymbolValues{1031, 5, 3, 23},
                               SymbolValues{131, 11, 13, 31},
                               SymbolValues{2, 7, 29, 37},
                               SymbolValues{32771, 2, 5, 41}};

// Traced tensors have no memory. Their address is a name: no pointer of a real process looks like
// it, and touching it faults at once.
constexpr uintptr_t kFirstAddress = uintptr_t{1} << 62;
constexpr uintptr_t kAddressStep = uintptr_t{1} << 32;
static_assert(sizeof(void*) == 8);

struct Operand {
  enum class Kind : uint8_t { none, input, result, parameter, state };
  Kind kind = Kind::none;
  size_t index = 0;  // of a result: of all results in order, new versions included

  friend bool operator==(const Operand&, const Operand&) = default;
};

// One op as it was called.
struct Record {
  OpCall call;
  std::vector<Operand> inputs;
  std::vector<TensorType> types;  // of its results, without states
  size_t first_result = 0;
  std::string location;
  std::string module_path;  // the last location there was
};

struct Recording {
  std::vector<Record> records;
  std::vector<Operand> outputs;
  std::vector<Tensor> parameters;  // by slot
};

/// Records each call. One run of the function.
class TracingExecutor final : public OpExecutor {
 public:
  TracingExecutor(const TraceSignature& signature, const SymbolValues& hint)
      : signature_(signature), hint_(hint) {
    for (const TraceInput& input : signature.inputs) {
      inputs_.push_back(fresh(input.type.evaluate(hint), {Operand::Kind::input, inputs_.size()}));
    }
    for (const TraceState& state : signature.states) state_versions_.push_back(state.tensor);
  }

  [[nodiscard]] std::span<const Tensor> inputs() const noexcept { return inputs_; }

  void execute(const OpCall& call,
               std::span<const Tensor> inputs,
               std::span<Tensor> outputs) override {
    Record record{.call = call, .first_result = num_results_};
    code_ = call.code;
    where_ = call.where;
    for (const Tensor& input : inputs) record.inputs.push_back(operand_of(input, record.location));
    if (!record.location.empty()) module_path_ = record.location;
    record.module_path = module_path_;
    check_effects(record);
    std::array<TensorType, kMaxOpOutputs> types;
    const size_t num_outputs = infer(call, inputs, types);
    REPRISE_ASSERT(
        outputs.size() == num_outputs, "{} has {} results", op_name(call.code), num_outputs);
    record.types.assign(types.begin(), types.begin() + static_cast<std::ptrdiff_t>(num_outputs));
    for (size_t i = 0; i < num_outputs; ++i) {
      outputs[i] = fresh(types[i], {Operand::Kind::result, num_results_++});
    }
    if (is_view(call.code))
      outputs[0] = with_strides_of_view(outputs[0], make_view(call, inputs[0]));
    if (call.code == OpCode::empty) traced_of(outputs[0]).is_fresh_empty = true;
    apply_effects(record, inputs);
    recording_.records.push_back(std::move(record));
  }

  Recording finish(std::span<const Tensor> outputs) && {
    for (const Tensor& output : outputs) {
      const bool is_traced = output.defined() && &output.executor() == this;
      if (!is_traced) {
        throw TraceError(
            Reason::output, std::nullopt, "", "returns a tensor that none of its ops computed");
      }
      recording_.outputs.push_back(traced_of(output).operand);
    }
    return std::move(recording_);
  }

 private:
  struct Traced {
    TensorType type;
    Shape strides;
    Operand operand;  // what the tensor means now
    bool is_fresh_empty = false;
  };

  [[noreturn]] void fail(Reason reason, const std::string& message) const {
    throw TraceError(reason,
                     recording_.records.size(),
                     module_path_,
                     fmt::format("{}: {}", op_name(code_), message),
                     where_);
  }

  Tensor fresh(const TensorType& type, Operand operand) {
    const uintptr_t address = kFirstAddress + traced_.size() * kAddressStep;
    traced_.push_back({.type = type, .strides = type.shape.dense_strides(), .operand = operand});
    return Tensor::borrow(type, reinterpret_cast<void*>(address), *this);
  }
  Tensor with_strides_of_view(const Tensor& dense, const Tensor& view) {
    traced_of(dense).strides = view.strides();
    return dense.with_layout(view.shape(), view.strides(), 0);
  }
  Traced& traced_of(const Tensor& tensor) {
    const uintptr_t offset = reinterpret_cast<uintptr_t>(tensor.data()) - kFirstAddress;
    const size_t index = offset / kAddressStep;
    if (offset % kAddressStep != 0 || index >= traced_.size() ||
        traced_[index].type != tensor.type() || traced_[index].strides != tensor.strides()) {
      fail(Reason::foreign_view, "an argument was made from a traced tensor without an op");
    }
    return traced_[index];
  }

  Operand operand_of(const Tensor& tensor, std::string& location) {
    if (!tensor.defined()) return {};
    if (&tensor.executor() == this) {
      Traced& traced = traced_of(tensor);
      // Memory that attention may overwrite must not be used for anything before.
      const bool is_attention_out = code_ == OpCode::attention && traced.is_fresh_empty;
      if (!is_attention_out) traced.is_fresh_empty = false;
      return traced.operand;
    }
    for (size_t slot = 0; slot < state_versions_.size(); ++slot) {
      if (tensor.data() == state_versions_[slot].data()) return state_operand(tensor, slot);
    }
    return parameter_operand(tensor, location);
  }
  Operand state_operand(const Tensor& tensor, size_t slot) const {
    if (tensor.type() != state_versions_[slot].type()) {
      fail(Reason::foreign_view,
           fmt::format("state s{} is used as {}", slot, tensor.type().to_string()));
    }
    return {Operand::Kind::state, slot};
  }
  Operand parameter_operand(const Tensor& tensor, std::string& location) {
    if (signature_.name_of_parameter && location.empty()) {
      location = signature_.name_of_parameter(tensor);
      // The module that has the parameter; a table that all modules share is in none.
      const size_t leaf = location.rfind('.');
      location.resize(leaf == std::string::npos ? 0 : leaf);
    }
    std::vector<Tensor>& parameters = recording_.parameters;
    for (size_t slot = 0; slot < parameters.size(); ++slot) {
      if (parameters[slot].data() == tensor.data() && parameters[slot].type() == tensor.type()) {
        return {Operand::Kind::parameter, slot};
      }
    }
    if (!is_parameter(tensor)) {
      fail(Reason::undeclared_memory,
           fmt::format("reads {}, which is no input, parameter or state",
                       tensor.type().to_string()));
    }
    parameters.push_back(tensor);
    return {Operand::Kind::parameter, parameters.size() - 1};
  }
  [[nodiscard]] bool is_parameter(const Tensor& tensor) const {
    const auto begin = reinterpret_cast<uintptr_t>(tensor.data());
    const uintptr_t end = begin + tensor.type().bytes();
    return tensor.is_dense() && std::any_of(signature_.parameter_memory.begin(),
                                            signature_.parameter_memory.end(),
                                            [&](const device::BufferView& memory) {
                                              const auto first =
                                                  reinterpret_cast<uintptr_t>(memory.data);
                                              return begin >= first && end <= first + memory.bytes;
                                            });
  }

  // Only declared state is state, only a fresh `empty` is overwritten.
  void check_effects(const Record& record) const {
    const OpSignature signature = signature_of(record.call);
    for (size_t i = 0; i < record.inputs.size(); ++i) {
      const bool wants_state =
          std::find(signature.states.begin(), signature.states.end(), i) != signature.states.end();
      const bool is_state = record.inputs[i].kind == Operand::Kind::state;
      if (wants_state && !is_state) {
        fail(Reason::undeclared_state,
             fmt::format("argument {} must be declared state of the trace", i));
      }
      if (is_state && !wants_state) {
        fail(Reason::undeclared_state,
             fmt::format("argument {} is state, which only attention reads", i));
      }
    }
  }

  size_t infer(const OpCall& call,
               std::span<const Tensor> inputs,
               std::span<TensorType> types) const {
    try {
      return infer_output_types(call, inputs, types);
    } catch (const ShapeError& error) {
      throw TraceError(Reason::shape,
                       recording_.records.size(),
                       module_path_,
                       fmt::format("{} (with {})", error.what(), hint_.to_string()),
                       where_);
    }
  }

  // Results that are what an argument has become: the argument means them from now on.
  void apply_effects(const Record& record, std::span<const Tensor> inputs) {
    const OpSignature signature = signature_of(record.call);
    if (signature.writes_states) num_results_ += signature.states.size();
    if (!signature.out_buffer) return;
    const Tensor& out = inputs[*signature.out_buffer];
    const bool is_traced = out.defined() && &out.executor() == this;
    if (!is_traced || !traced_of(out).is_fresh_empty) {
      fail(Reason::undeclared_state,
           "writes to a tensor that is not declared state; only the untouched result of empty_like "
           "can be overwritten");
    }
    traced_of(out).is_fresh_empty = false;
    traced_of(out).operand = {Operand::Kind::result, num_results_++};
  }

  const TraceSignature& signature_;
  SymbolValues hint_;
  std::vector<Tensor> inputs_;
  std::vector<Tensor> state_versions_;
  std::vector<Traced> traced_;  // by address
  Recording recording_;
  size_t num_results_ = 0;
  std::string module_path_;
  OpCode code_ = OpCode::empty;
  std::source_location where_;
};

// One program out of recordings that differ in sizes only.
class Merger {
 public:
  Merger(const TraceSignature& signature, std::span<const Recording> recordings)
      : signature_(signature), recordings_(recordings) {}

  TracedProgram merge() {
    for (const TraceInput& input : signature_.inputs)
      (void)program_.add_input(input.name, input.type);
    for (const Tensor& parameter : recordings_[0].parameters) {
      (void)program_.add_parameter(constant_type(parameter.type()));
    }
    std::vector<Tensor> states;
    for (const TraceState& state : signature_.states) {
      (void)program_.add_state(state.type);
      states.push_back(state.tensor);
    }
    size_t num_records = recordings_[0].records.size();
    for (const Recording& other : recordings_)
      num_records = std::min(num_records, other.records.size());
    for (size_t i = 0; i < num_records; ++i) add_node(i);
    require_equal_ends(num_records);
    for (const Operand& output : recordings_[0].outputs)
      program_.outputs.push_back(value_of(output));
    return {.program = std::move(program_),
            .slots = {.parameters = recordings_[0].parameters, .states = std::move(states)}};
  }

 private:
  [[noreturn]] void fail(Reason reason, size_t index, const std::string& message) const {
    std::string module_path;
    std::source_location where;
    if (index < recordings_[0].records.size()) {
      module_path = recordings_[0].records[index].module_path;
      where = recordings_[0].records[index].call.where;
    }
    throw TraceError(reason, index, std::move(module_path), message, where);
  }
  [[noreturn]] void fail_branch(size_t index, size_t other, std::string_view what) const {
    fail(Reason::branch,
         index,
         fmt::format("{} with {} than with {}: the function decides by a size",
                     what,
                     kHints[other].to_string(),
                     kHints[0].to_string()));
  }

  void require_equal_ends(size_t num_records) const {
    for (size_t run = 1; run < recordings_.size(); ++run) {
      if (recordings_[run].records.size() != recordings_[0].records.size()) {
        fail_branch(num_records, run, "the function has more or fewer ops");
      }
      if (recordings_[run].outputs != recordings_[0].outputs) {
        fail_branch(num_records, run, "the function returns other values");
      }
    }
    for (size_t run = 1; run < recordings_.size(); ++run) {
      const std::vector<Tensor>& a = recordings_[0].parameters;
      const std::vector<Tensor>& b = recordings_[run].parameters;
      const bool same =
          std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Tensor& x, const Tensor& y) {
            return x.data() == y.data() && x.type() == y.type();
          });
      if (!same) fail_branch(num_records, run, "the function reads other parameters");
    }
  }

  void require_equal_structure(size_t index) const {
    const Record& first = recordings_[0].records[index];
    for (size_t run = 1; run < recordings_.size(); ++run) {
      const Record& other = recordings_[run].records[index];
      if (other.call.code != first.call.code) {
        fail_branch(index,
                    run,
                    fmt::format("op {} is {} instead of {}",
                                index,
                                op_name(other.call.code),
                                op_name(first.call.code)));
      }
      if (other.inputs != first.inputs) {
        fail_branch(index, run, fmt::format("{} takes other arguments", op_name(first.call.code)));
      }
      const OpAttributes& a = first.call.attributes;
      const OpAttributes& b = other.call.attributes;
      // Bits, so that not-a-number equals itself here and is verify()'s to refuse.
      const auto bits = [](float value) { return std::bit_cast<uint32_t>(value); };
      if (bits(a.epsilon) != bits(b.epsilon) || a.dim != b.dim || bits(a.scale) != bits(b.scale) ||
          a.sliding_window != b.sliding_window || a.ranks != b.ranks ||
          a.type.dtype != b.type.dtype || a.custom != b.custom) {
        fail(Reason::baked_number,
             index,
             fmt::format("{}: a constant depends on a size: {} became {}",
                         op_name(first.call.code),
                         kHints[0].to_string(),
                         kHints[run].to_string()));
      }
    }
  }

  template <typename Size>
  SymInt fit_size(size_t index, std::string_view what, const Size& size_in) const {
    std::array<SizeSample, kHints.size()> samples;
    for (size_t run = 0; run < samples.size(); ++run) {
      samples[run] = {size_in(recordings_[run].records[index]), kHints[run]};
    }
    if (const std::optional<SymInt> size = fit(samples)) return *size;
    std::string seen;
    for (const SizeSample& sample : samples) {
      seen += fmt::format("; {} with {}", sample.size, sample.values.to_string());
    }
    fail(Reason::baked_number,
         index,
         fmt::format("{}: {} is neither a constant nor affine in T, R or L{}",
                     op_name(recordings_[0].records[index].call.code),
                     what,
                     seen));
  }

  ValueType fit_type(size_t index, size_t result) const {
    const TensorType& first = recordings_[0].records[index].types[result];
    ValueType type{.dtype = first.dtype};
    for (size_t run = 1; run < recordings_.size(); ++run) {
      const TensorType& other = recordings_[run].records[index].types[result];
      if (other.dtype != first.dtype || other.shape.rank() != first.shape.rank()) {
        fail_branch(index, run, "another type");
      }
    }
    for (int dim = 0; dim < first.shape.rank(); ++dim) {
      type.shape.push_back(
          fit_size(index, fmt::format("size {} of the result", dim), [&](const Record& record) {
            return record.types[result].shape[dim];
          }));
    }
    return type;
  }

  ValueId value_of(const Operand& operand) const {
    switch (operand.kind) {
      case Operand::Kind::none:
        return kNoValue;
      case Operand::Kind::input:
        return program_.inputs[operand.index].value;
      case Operand::Kind::result:
        return results_.at(operand.index);
      case Operand::Kind::parameter:
        return program_.parameters[operand.index];
      case Operand::Kind::state:
        return program_.final_states[operand.index];  // the version after the ops so far
    }
    return kNoValue;
  }

  void add_node(size_t index) {
    require_equal_structure(index);
    const Record& record = recordings_[0].records[index];
    const OpAttributes& attributes = record.call.attributes;
    Node node{.op = record.call.code, .location = record.location};
    node.attributes = {
        .epsilon = attributes.epsilon,
        .dim = attributes.dim,
        .begin = fit_size(index, "begin", [](const Record& r) { return r.call.attributes.begin; }),
        .length =
            fit_size(index, "length", [](const Record& r) { return r.call.attributes.length; }),
        .scale = attributes.scale,
        .sliding_window = attributes.sliding_window,
        .ranks = attributes.ranks,
        .custom = attributes.custom};
    const std::span<const Attribute> keys = attributes_of(node.op);
    if (std::find(keys.begin(), keys.end(), Attribute::dtype) != keys.end()) {
      node.attributes.dtype = attributes.type.dtype;
    }
    for (const Operand& input : record.inputs) node.inputs.push_back(value_of(input));
    for (size_t i = 0; i < record.types.size(); ++i) {
      node.outputs.push_back(program_.add_value(fit_type(index, i)));
    }
    const OpSignature signature = signature_of(program_, node);
    if (signature.writes_states) {
      for (size_t operand : signature.states) {
        node.outputs.push_back(program_.add_next_version(node.inputs[operand]));
      }
    }
    if (signature.out_buffer) {
      node.outputs.push_back(program_.add_value(program_.type(node.inputs[*signature.out_buffer])));
    }
    results_.insert(results_.end(), node.outputs.begin(), node.outputs.end());
    program_.nodes.push_back(std::move(node));
  }

  const TraceSignature& signature_;
  std::span<const Recording> recordings_;
  Program program_;
  std::vector<ValueId> results_;  // all results in order
};

}  // namespace

namespace {

// " at llama.cpp:91": the file without its folder, which is that of whoever built this.
std::string line_text(const std::source_location& where) {
  if (where.line() == 0) return {};
  std::string_view file = where.file_name();
  if (const size_t slash = file.rfind('/'); slash != std::string_view::npos) {
    file.remove_prefix(slash + 1);
  }
  return fmt::format(" at {}:{}", file, where.line());
}

}  // namespace

TraceError::TraceError(Reason reason,
                       std::optional<size_t> op_index,
                       std::string module_path,
                       const std::string& message,
                       std::source_location where)
    : Error(fmt::format("trace: {}{}{}{}",
                        op_index ? fmt::format("op {}: ", *op_index) : "",
                        message,
                        module_path.empty() ? "" : fmt::format(" (in or after {})", module_path),
                        line_text(where))),
      reason_(reason),
      op_index_(op_index),
      module_path_(std::move(module_path)),
      where_(where) {}

TracedProgram trace(const TraceSignature& signature, const TracedFunction& function) {
  std::vector<Recording> recordings;
  for (const SymbolValues& hint : kHints) {
    TracingExecutor executor(signature, hint);
    const std::vector<Tensor> outputs = function(executor.inputs());
    recordings.push_back(std::move(executor).finish(outputs));
  }
  TracedProgram traced = Merger(signature, recordings).merge();
  check(traced.program);
  return traced;
}

}  // namespace reprise::program
