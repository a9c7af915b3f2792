#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "reprise/program/program.h"
#include "reprise/program/trace.h"
#include "reprise/tensor/op.h"
#include "reprise/tensor/view.h"

/// The recording of one run of a traced function, used by trace().
namespace reprise::program {

// Traced tensors have no memory; the address only identifies the tensor. Values from 2^62 on are no
// valid addresses, so no real tensor has one, and an access to one faults at once.
inline constexpr uintptr_t kFirstAddress = uintptr_t{1} << 62;
inline constexpr uintptr_t kAddressStep = uintptr_t{1} << 32;
static_assert(sizeof(void*) == 8);

struct TracedOperand {
  enum class Kind : uint8_t { none, input, result, parameter, state };
  Kind kind = Kind::none;
  // For a result: its number among all results so far, including new versions of states.
  size_t index = 0;

  friend bool operator==(const TracedOperand&, const TracedOperand&) = default;
};

struct TracedCall {
  OpCall call;
  std::vector<TracedOperand> inputs;
  std::vector<TensorType> types;  // of the results; new versions of states have no entry
  size_t first_result = 0;
  std::string location;
  std::string module_path;  // the location of this op, or of the last op that had one
};

struct TraceRecording {
  std::vector<TracedCall> records;
  std::vector<TracedOperand> outputs;
  std::vector<Tensor> parameters;  // by slot
};

/// An executor that records the calls of one run instead of executing them.
class TracingExecutor final : public OpExecutor {
 public:
  TracingExecutor(const TraceSignature& signature, const SymbolValues& hint)
      : signature_(signature), hint_(hint) {
    for (const TraceInput& input : signature.inputs) {
      inputs_.push_back(
          fresh(input.type.evaluate(hint), {TracedOperand::Kind::input, inputs_.size()}));
    }
    for (const TraceState& state : signature.states) state_versions_.push_back(state.tensor);
  }

  [[nodiscard]] std::span<const Tensor> inputs() const noexcept { return inputs_; }

  void execute(const OpCall& call,
               std::span<const Tensor> inputs,
               std::span<Tensor> outputs) override {
    TracedCall record{.call = call, .first_result = num_results_};
    code_ = call.code;
    where_ = call.where;
    const OpSignature signature = signature_of(call);
    for (size_t i = 0; i < inputs.size(); ++i) {
      const bool is_overwritten = signature.out_buffer == i;
      record.inputs.push_back(operand_of(inputs[i], is_overwritten, record.location));
    }
    if (!record.location.empty()) module_path_ = record.location;
    record.module_path = module_path_;
    check_effects(record);
    std::array<TensorType, kMaxOpOutputs> types;
    const size_t num_outputs = infer(call, inputs, types);
    REPRISE_ASSERT(
        outputs.size() == num_outputs, "{} has {} results", op_name(call.code), num_outputs);
    record.types.assign(types.begin(), types.begin() + static_cast<std::ptrdiff_t>(num_outputs));
    for (size_t i = 0; i < num_outputs; ++i) {
      outputs[i] = fresh(types[i], {TracedOperand::Kind::result, num_results_++});
    }
    if (is_view(call.code))
      outputs[0] = with_strides_of_view(outputs[0], make_view(call, inputs[0]));
    if (call.code == OpCode::empty) traced_of(outputs[0]).is_fresh_empty = true;
    apply_effects(record, inputs);
    recording_.records.push_back(std::move(record));
  }

  TraceRecording finish(std::span<const Tensor> outputs) && {
    for (const Tensor& output : outputs) {
      const bool is_traced = output.defined() && &output.executor() == this;
      if (!is_traced) {
        throw TraceError(TraceError::Reason::output,
                         std::nullopt,
                         "",
                         "returns a tensor that none of its ops computed");
      }
      recording_.outputs.push_back(traced_of(output).operand);
    }
    return std::move(recording_);
  }

 private:
  struct Traced {
    TensorType type;
    Shape strides;
    TracedOperand operand;  // the program value that the tensor stands for now
    bool is_fresh_empty = false;
  };

  [[noreturn]] void fail(TraceError::Reason reason, const std::string& message) const {
    throw TraceError(reason,
                     recording_.records.size(),
                     module_path_,
                     fmt::format("{}: {}", op_name(code_), message),
                     where_);
  }

  Tensor fresh(const TensorType& type, TracedOperand operand) {
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
      fail(TraceError::Reason::foreign_view,
           "an argument was made from a traced tensor without an op");
    }
    return traced_[index];
  }

  TracedOperand operand_of(const Tensor& tensor, bool is_overwritten, std::string& location) {
    if (!tensor.defined()) return {};
    if (&tensor.executor() == this) {
      Traced& traced = traced_of(tensor);
      // An op may overwrite memory only if no earlier op has used it.
      if (!is_overwritten) traced.is_fresh_empty = false;
      return traced.operand;
    }
    for (size_t slot = 0; slot < state_versions_.size(); ++slot) {
      if (tensor.data() == state_versions_[slot].data()) return state_operand(tensor, slot);
    }
    return parameter_operand(tensor, location);
  }
  [[nodiscard]] TracedOperand state_operand(const Tensor& tensor, size_t slot) const {
    if (tensor.type() != state_versions_[slot].type()) {
      fail(TraceError::Reason::foreign_view,
           fmt::format("state s{} is used as {}", slot, tensor.type().to_string()));
    }
    return {TracedOperand::Kind::state, slot};
  }
  TracedOperand parameter_operand(const Tensor& tensor, std::string& location) {
    if (signature_.name_of_parameter && location.empty()) {
      location = signature_.name_of_parameter(tensor);
      // Keep the module: "model.norm.weight" gives "model.norm". A name without a dot (a table that
      // all modules share) gives no location.
      const size_t leaf = location.rfind('.');
      location.resize(leaf == std::string::npos ? 0 : leaf);
    }
    std::vector<Tensor>& parameters = recording_.parameters;
    for (size_t slot = 0; slot < parameters.size(); ++slot) {
      if (parameters[slot].data() == tensor.data() && parameters[slot].type() == tensor.type()) {
        return {TracedOperand::Kind::parameter, slot};
      }
    }
    if (!is_parameter(tensor)) {
      fail(TraceError::Reason::undeclared_memory,
           fmt::format("reads {}, which is not an input, parameter or state",
                       tensor.type().to_string()));
    }
    parameters.push_back(tensor);
    return {TracedOperand::Kind::parameter, parameters.size() - 1};
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

  // Fails if a state is used where the op expects no state, or the other way round.
  void check_effects(const TracedCall& record) const {
    const OpSignature signature = signature_of(record.call);
    for (size_t i = 0; i < record.inputs.size(); ++i) {
      const bool wants_state =
          std::find(signature.states.begin(), signature.states.end(), i) != signature.states.end();
      const bool is_state = record.inputs[i].kind == TracedOperand::Kind::state;
      if (wants_state && !is_state) {
        fail(TraceError::Reason::undeclared_state,
             fmt::format("argument {} must be declared state of the trace", i));
      }
      if (is_state && !wants_state) {
        fail(TraceError::Reason::undeclared_state,
             fmt::format("argument {} is state, which only attention reads", i));
      }
    }
  }

  [[nodiscard]] size_t infer(const OpCall& call,
                             std::span<const Tensor> inputs,
                             std::span<TensorType> types) const {
    try {
      return infer_output_types(call, inputs, types);
    } catch (const ShapeError& error) {
      throw TraceError(TraceError::Reason::shape,
                       recording_.records.size(),
                       module_path_,
                       fmt::format("{} (with {})", error.what(), hint_.to_string()),
                       where_);
    }
  }

  // If the op overwrites an operand, the content of that operand becomes a new value of the
  // program. Later uses of the tensor refer to the new value.
  void apply_effects(const TracedCall& record, std::span<const Tensor> inputs) {
    const OpSignature signature = signature_of(record.call);
    if (signature.writes_states) num_results_ += signature.states.size();
    if (!signature.out_buffer) return;
    const Tensor& out = inputs[*signature.out_buffer];
    const bool is_traced = out.defined() && &out.executor() == this;
    if (!is_traced || !traced_of(out).is_fresh_empty) {
      fail(TraceError::Reason::undeclared_state,
           "writes to a tensor that is not declared state; only the untouched result of empty_like "
           "can be overwritten");
    }
    traced_of(out).is_fresh_empty = false;
    traced_of(out).operand = {TracedOperand::Kind::result, num_results_++};
  }

  const TraceSignature& signature_;
  SymbolValues hint_;
  std::vector<Tensor> inputs_;
  std::vector<Tensor> state_versions_;
  std::vector<Traced> traced_;  // index = (address - kFirstAddress) / kAddressStep
  TraceRecording recording_;
  size_t num_results_ = 0;
  std::string module_path_;
  OpCode code_ = OpCode::empty;
  std::source_location where_;
};

}  // namespace reprise::program
