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

/// Memory that the function may write to, and its type in the program. The type has an open size
/// where the size differs between machines.
struct TraceState {
  TraceState(Tensor state)
      : tensor(std::move(state)), type(constant_type(tensor.type())) {}  // NOLINT
  TraceState(Tensor state, ValueType state_type) : tensor(std::move(state)), type(state_type) {}

  Tensor tensor;
  ValueType type;
};

/// The memory that a traced function may use besides the results of its own ops.
struct TraceSignature {
  std::vector<TraceInput> inputs;
  /// Memory that the function may write to (KV caches); slots are numbered in this order.
  std::vector<TraceState> states;
  /// Memory that never changes (weights). Reading any other memory is an error: the program would
  /// keep an address that is valid only now.
  std::vector<device::BufferView> parameter_memory;
  /// Name of a parameter, such as "model.layers.0.mlp.down_proj.weight". Messages name its module
  /// as the place of an op in the model. May be empty.
  std::function<std::string(const Tensor&)> name_of_parameter;
};

/// A model's forward. It takes the inputs in the order of the signature, returns the results, and
/// is called several times.
using TracedFunction = std::function<std::vector<Tensor>(std::span<const Tensor> inputs)>;

struct TracedProgram {
  Program program;
  SlotTensors slots;  // borrowed memory: the caller's weights and caches
};

/// The function does something that a program cannot express. The error has the number of the op,
/// counted from the start of the function, the line of code that called it, and the last module
/// before it.
class TraceError : public Error {
 public:
  enum class Reason : uint8_t {
    baked_number,       // a size is neither constant nor affine in T, R or L
    branch,             // other ops for other sizes: the function decided by a size
    shape,              // arguments do not fit each other (for some sizes)
    undeclared_state,   // writes to memory that is not declared state
    undeclared_memory,  // reads memory that is no input, parameter or state
    foreign_view,       // a traced tensor was changed without an op
    output,             // returns a tensor that none of its ops computed
  };

  TraceError(Reason reason,
             std::optional<size_t> op_index,
             std::string module_path,
             const std::string& message,
             std::source_location where = {});

  [[nodiscard]] Reason reason() const noexcept { return reason_; }
  /// Nothing: the error concerns the whole function.
  [[nodiscard]] std::optional<size_t> op_index() const noexcept { return op_index_; }
  [[nodiscard]] const std::string& module_path() const noexcept { return module_path_; }
  /// Line 0: no line is known.
  [[nodiscard]] const std::source_location& where() const noexcept { return where_; }

 private:
  Reason reason_;
  std::optional<size_t> op_index_;
  std::string module_path_;
  std::source_location where_;
};

/// Records the ops of `function` as a program for any number of tokens, requests and logits. The
/// function runs five times, each time with other sizes, on tensors that have no memory. Two runs
/// decide every size of the program, and the other runs confirm it. Nothing is launched. See
/// docs/adr/0008.
///
/// The trace finds parameters by address when ops use them. An op runs through the executor of its
/// first operand, so that operand must be an activation.
/// \throws TraceError, and what the function throws
[[nodiscard]] TracedProgram trace(const TraceSignature& signature, const TracedFunction& function);

}  // namespace reprise::program
