#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "reprise/base/error.h"
#include "reprise/program/sym_shape.h"
#include "reprise/tensor/op_table.h"

/// The compiler's representation of one forward of a model: which ops on which values.
namespace reprise::program {

/// Position in Program::values.
enum class ValueId : uint32_t {};
[[nodiscard]] constexpr size_t index_of(ValueId id) noexcept { return static_cast<size_t>(id); }
/// An optional argument left out.
inline constexpr ValueId kNoValue{0xFFFF'FFFFU};

/// The result of one computation, which never changes. Memory that does change (a KV cache) is a
/// chain of values: each write takes one version of the state and makes the next version. This
/// keeps reads and writes in order, and keeps writes from being removed as dead code.
struct Value {
  ValueType type;
  std::optional<uint32_t> state;  // slot, if this is a version of that state
};

/// The constants of a node. Each op uses only those that its signature names (tensor/op_list.inl).
/// The type of an `empty` is the type of its result.
struct NodeAttributes {
  float epsilon = 0;
  int dim = 0;
  SymInt begin;
  SymInt length;
  float scale = 0;
  int64_t sliding_window = 0;
  float soft_cap = 0;
  DType dtype = DType::f32;
  int64_t ranks = 0;
  uint32_t group = 0;                // position in Program::groups
  const CustomOp* custom = nullptr;  // owned by the code that registered it

  friend bool operator==(const NodeAttributes&, const NodeAttributes&) = default;
};

/// One op call. Its outputs are the results of the op, then the next versions of the states that
/// the op writes, then the buffer that it overwrites, as it is afterwards.
struct Node {
  OpCode op = OpCode::empty;
  NodeAttributes attributes;
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
  std::string location;  // the place in the model, for messages; no part of the program's meaning
};

struct ProgramInput {
  std::string name;  // identifier, unique in the program
  ValueId value{};
  bool is_buffer = false;  // memory that attention overwrites; its content at entry means nothing
};

/// The attributes that an op reads, in the order of its text.
[[nodiscard]] std::span<const Attribute> attributes_of(OpCode op) noexcept;
/// "epsilon"
[[nodiscard]] inline std::string_view attribute_name(Attribute attribute) noexcept {
  return kAttributeNames[static_cast<size_t>(attribute)];
}
/// Calls `visit` with the member of NodeAttributes that holds an attribute.
template <typename Visit>
decltype(auto) visit_member_of(Attribute attribute, Visit&& visit) {
  switch (attribute) {
    case Attribute::dim:
      return visit(&NodeAttributes::dim);
    case Attribute::begin:
      return visit(&NodeAttributes::begin);
    case Attribute::length:
    case Attribute::heads:
    case Attribute::top_k:
      break;
    case Attribute::epsilon:
      return visit(&NodeAttributes::epsilon);
    case Attribute::scale:
      return visit(&NodeAttributes::scale);
    case Attribute::sliding_window:
      return visit(&NodeAttributes::sliding_window);
    case Attribute::soft_cap:
      return visit(&NodeAttributes::soft_cap);
    case Attribute::dtype:
      return visit(&NodeAttributes::dtype);
    case Attribute::ranks:
      return visit(&NodeAttributes::ranks);
    case Attribute::group:
      return visit(&NodeAttributes::group);
  }
  return visit(&NodeAttributes::length);
}

/// A program in functional SSA form: every value has one definition (an input, a slot, or a node)
/// before all its uses. Parameters and states are slots, so that layers with equal code are equal
/// programs. Program is a value type: copy it, compare its text. verify() tells whether a program
/// is well formed.
///
/// A `row_group` node runs a group: a program of row-wise ops that has only inputs (no parameters,
/// no states), and whose rows are independent of each other. Code is generated once per group, and
/// equal groups are stored once.
struct Program {
  std::vector<Program> groups;
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
  /// Adds a state slot that the program does not change yet.
  [[nodiscard]] ValueId add_state(ValueType type);
  /// Adds the version that follows `version`, and makes it the version at exit.
  [[nodiscard]] ValueId add_next_version(ValueId version);
};

/// A program breaks a rule. The message is the sentence that verify() returns.
class ProgramError : public Error {
 public:
  using Error::Error;
};

/// How an op touches its operands, besides reading them.
struct OpSignature {
  size_t num_inputs = 0;
  size_t num_results = 0;                   // the first outputs of a node: what the op computes
  std::span<const size_t> states;           // operands that must be state
  bool writes_states = false;               // the next versions of the states are outputs too
  std::optional<size_t> out_buffer;         // operand that is overwritten: the node's only output
  std::span<const size_t> optional_inputs;  // operands that may be left out

  /// The number of outputs of a node with this op.
  [[nodiscard]] size_t num_outputs() const noexcept {
    return num_results + (writes_states ? states.size() : 0) + (out_buffer ? 1 : 0);
  }
};
/// \pre a row_group's group exists and a custom op is named, as in every verified program
[[nodiscard]] OpSignature signature_of(const Program& program, const Node& node);
/// The signature of a call. \pre the op is not row_group, which only programs have
[[nodiscard]] OpSignature signature_of(const OpCall& call);
/// All ops, and the op that has a name.
[[nodiscard]] std::span<const OpCode> all_ops() noexcept;
[[nodiscard]] std::optional<OpCode> parse_op_name(std::string_view name) noexcept;

/// The call that a node stands for when symbols have these values.
[[nodiscard]] OpCall call_of(const Program& program, const Node& node, const SymbolValues& values);

}  // namespace reprise::program
