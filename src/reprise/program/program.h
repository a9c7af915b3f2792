#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "reprise/base/error.h"
#include "reprise/program/sym_shape.h"
#include "reprise/tensor/op.h"

/// The compiler's representation of one forward of a model: which ops on which values.
namespace reprise::program {

/// Position in Program::values.
enum class ValueId : uint32_t {};
[[nodiscard]] constexpr size_t index_of(ValueId id) noexcept { return static_cast<size_t>(id); }
/// An optional argument left out.
inline constexpr ValueId kNoValue{0xFFFF'FFFFU};

/// Something that is computed once and never changes. Memory that does change (a KV cache) is a
/// chain of values instead: each write takes one version of the state and makes the next, which is
/// what keeps reads and writes in order and writes alive.
struct Value {
  ValueType type;
  std::optional<uint32_t> state;  // slot, if this is a version of that state
};

/// The constants of a node; each op uses only those that its line in op.h names. The type of an
/// `empty` is that of its result.
struct NodeAttributes {
  float epsilon = 0;
  int dim = 0;
  SymInt begin;
  SymInt length;
  float scale = 0;
  int64_t sliding_window = 0;

  friend bool operator==(const NodeAttributes&, const NodeAttributes&) = default;
};

/// One op call. Besides the results of op.h, kv_write results in the next versions of both caches,
/// and attention in `out` as it is afterwards.
struct Node {
  OpCode op = OpCode::empty;
  NodeAttributes attributes;
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
  std::string location;  // where in the model, for people; no part of what the program means
};

struct ProgramInput {
  std::string name;  // identifier, unique in the program
  ValueId value{};
  bool is_buffer = false;  // memory to be overwritten by attention; its content means nothing
};

/// Functional SSA: every value has one definition (an input, a slot, or a node) before all its
/// uses. Parameters and states are slots, so that layers with equal code are equal programs. A
/// value type: copy it, compare its text. verify() says whether it is well formed.
struct Program {
  std::vector<Value> values;
  std::vector<ProgramInput> inputs;
  std::vector<ValueId> parameters;  // by slot
  std::vector<ValueId> states;      // by slot: the version at entry
  std::vector<Node> nodes;          // in order of execution
  std::vector<ValueId> outputs;
  std::vector<ValueId> final_states;  // by slot: the version at exit

  [[nodiscard]] const Value& value(ValueId id) const { return values.at(index_of(id)); }
  [[nodiscard]] const ValueType& type(ValueId id) const { return value(id).type; }

  [[nodiscard]] ValueId add_value(ValueType type, std::optional<uint32_t> state = std::nullopt);
  [[nodiscard]] ValueId add_input(std::string name, ValueType type, bool is_buffer = false);
  [[nodiscard]] ValueId add_parameter(ValueType type);
  /// A new state slot, for now unchanged by the program.
  [[nodiscard]] ValueId add_state(ValueType type);
  /// The version after `version`; at exit it is current.
  [[nodiscard]] ValueId add_next_version(ValueId version);
};

/// A program breaks a rule; the message is verify()'s sentence.
class ProgramError : public Error {
 public:
  using Error::Error;
};

/// How an op touches its operands, besides reading them.
struct OpSignature {
  size_t num_inputs = 0;
  size_t num_outputs = 0;                // of a node, new versions included
  std::span<const size_t> states;        // operands that must be state
  bool writes_states = false;            // results are their next versions
  std::optional<size_t> out_buffer;      // operand that is overwritten; the result is what it holds
  std::optional<size_t> optional_input;  // operand that may be left out
};
[[nodiscard]] OpSignature signature_of(OpCode op) noexcept;
/// All ops, and the one of that name.
[[nodiscard]] std::span<const OpCode> all_ops() noexcept;
[[nodiscard]] std::optional<OpCode> parse_op_name(std::string_view name) noexcept;

/// The call that a node stands for when symbols have these values.
[[nodiscard]] OpCall call_of(const Program& program, const Node& node, const SymbolValues& values);

}  // namespace reprise::program
