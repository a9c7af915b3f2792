#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <vector>

#include "reprise/base/error.h"
#include "reprise/program/interpreter.h"
#include "reprise/program/program.h"
#include "reprise/tensor/tensor.h"

namespace reprise::program {

struct TraceInput {
  std::string name;
  ValueType type;
};

/// Memory that the function may write to, and its type in the program: with an open size where
/// that differs from machine to machine.
struct TraceState {
  TraceState(Tensor state)
      : tensor(std::move(state)), type(constant_type(tensor.type())) {}  // NOLINT
  TraceState(Tensor state, ValueType state_type) : tensor(std::move(state)), type(state_type) {}

  Tensor tensor;
  ValueType type;
};

/// What a traced function may touch besides the results of its own ops.
struct TraceSignature {
  std::vector<TraceInput> inputs;
  /// Memory that the function may write to (KV caches); slots are numbered in this order.
  std::vector<TraceState> states;
  /// Memory that never changes (weights). Reading anything else is an error: it would be fixed in
  /// the program at today's address.
  std::vector<device::BufferView> parameter_memory;
  /// Name of a parameter, such as "model.layers.0.mlp.down_proj.weight": its module tells people
  /// where in the model an op is. May be empty.
  std::function<std::string(const Tensor&)> name_of_parameter;
};

/// A model's forward: inputs in the order of the signature, results returned. Called several times.
using TracedFunction = std::function<std::vector<Tensor>(std::span<const Tensor> inputs)>;

struct TracedProgram {
  Program program;
  SlotTensors slots;  // borrowed memory: the caller's weights and caches
};

/// The function does something that a program cannot say. Where: the op as counted from the start
/// of the function, the line of code that asked for it, and the last module that was named before.
class TraceError : public Error {
 public:
  enum class Reason : uint8_t {
    baked_number,       // a size is neither constant nor affine in T, R or L
    branch,             // other ops for other sizes: the function looked at a size
    shape,              // arguments do not fit each other (for some sizes)
    undeclared_state,   // writes to memory that is not declared state
    undeclared_memory,  // reads memory that is no input, parameter or state
    foreign_view,       // a traced tensor was changed without an op
    output,             // returns something that no op of it computed
  };

  TraceError(Reason reason,
             std::optional<size_t> op_index,
             std::string module_path,
             const std::string& message,
             std::source_location where = {});

  [[nodiscard]] Reason reason() const noexcept { return reason_; }
  /// Nothing where the function as a whole is meant.
  [[nodiscard]] std::optional<size_t> op_index() const noexcept { return op_index_; }
  [[nodiscard]] const std::string& module_path() const noexcept { return module_path_; }
  /// Line 0: none is known.
  [[nodiscard]] const std::source_location& where() const noexcept { return where_; }

 private:
  Reason reason_;
  std::optional<size_t> op_index_;
  std::string module_path_;
  std::source_location where_;
};

/// Records what `function` does, for any number of tokens, requests and logits. It runs five times
/// with tensors without memory, each time with other sizes; two runs decide every size of the
/// program, the others confirm it. Nothing is launched. See docs/adr/0008.
///
/// Parameters are found by address as ops use them. An op runs through the executor of its first
/// argument, so that argument has to be an activation.
/// \throws TraceError, and what the function throws
[[nodiscard]] TracedProgram trace(const TraceSignature& signature, const TracedFunction& function);

}  // namespace reprise::program
