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

/// Memory that the function may write to, and its type in the program. That type has a symbol for a
/// size that differs between machines (the number of cache blocks).
struct TraceState {
  TraceState(Tensor state)
      : tensor(std::move(state)), type(constant_type(tensor.type())) {}  // NOLINT
  TraceState(Tensor state, ValueType state_type) : tensor(std::move(state)), type(state_type) {}

  Tensor tensor;
  ValueType type;
};

/// All memory that a traced function may use, except the results of its own ops.
struct TraceSignature {
  std::vector<TraceInput> inputs;
  /// Memory that the function may write to (KV caches). The order gives the slot numbers.
  std::vector<TraceState> states;
  /// Memory that never changes (weights). If the function reads any other memory, tracing fails,
  /// because the program would keep an address that may not be valid in later runs.
  std::vector<device::BufferView> parameter_memory;
  /// The name of a parameter, such as "model.layers.0.mlp.down_proj.weight". The module part of the
  /// name becomes the location of the op that uses the parameter. May be empty.
  std::function<std::string(const Tensor&)> name_of_parameter;
};

/// A model's forward. It takes the inputs in the order of the signature and returns the results.
/// trace() calls it several times.
using TracedFunction = std::function<std::vector<Tensor>(std::span<const Tensor> inputs)>;

struct TracedProgram {
  Program program;
  SlotTensors slots;  // borrowed: the caller's weights and caches
};

/// The function does something that a program cannot express. The error names the op by its number
/// since the start of the function, the line of code that called the op, and the last module that
/// ran before it.
class TraceError : public Error {
 public:
  enum class Reason : uint8_t {
    baked_number,       // a size is neither constant nor affine in one symbol (T, R or L)
    branch,             // the ops differ between sizes, because the function branches on a size
    shape,              // the operands of an op do not fit (for some sizes)
    undeclared_state,   // writes to memory that is not a declared state
    undeclared_memory,  // reads memory that is not an input, parameter or state
    foreign_view,       // code changed the address or shape of a traced tensor without an op
    output,             // returns a tensor that none of its ops computed
    declaration,        // CompileSupport names an argument or a dimension that does not exist
  };

  TraceError(Reason reason,
             std::optional<size_t> op_index,
             std::string module_path,
             const std::string& message,
             std::source_location where = {});

  [[nodiscard]] Reason reason() const noexcept { return reason_; }
  /// Nothing if the error concerns the whole function.
  [[nodiscard]] std::optional<size_t> op_index() const noexcept { return op_index_; }
  [[nodiscard]] const std::string& module_path() const noexcept { return module_path_; }
  /// Line 0 means that the line is not known.
  [[nodiscard]] const std::source_location& where() const noexcept { return where_; }

 private:
  Reason reason_;
  std::optional<size_t> op_index_;
  std::string module_path_;
  std::source_location where_;
};

/// Whether the error is about sizes: the function can be traced for given sizes, though not for all
/// sizes at once.
[[nodiscard]] inline bool is_about_sizes(const TraceError& error) noexcept {
  return error.reason() == TraceError::Reason::branch ||
         error.reason() == TraceError::Reason::baked_number ||
         error.reason() == TraceError::Reason::shape;
}

/// Records the ops of `function` as a program for any number of tokens, requests and logits. The
/// function runs five times, each time with other sizes, on tensors without memory; nothing is
/// launched. The first two runs determine every size of the program as a number or an affine
/// function of a symbol, and the other three runs confirm it. See docs/adr/0008.
///
/// An op that uses a tensor with the address of a weight makes that weight a parameter of the
/// program. An op runs through the executor of its first operand, and only activations belong to
/// the tracing executor, so the first operand must be an activation.
/// \throws TraceError, and what the function throws
[[nodiscard]] TracedProgram trace(const TraceSignature& signature, const TracedFunction& function);

}  // namespace reprise::program
