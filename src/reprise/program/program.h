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

/// The compiler's representation of one forward of a model: a list of ops on numbered values.
namespace reprise::program {

/// Position in Program::values.
enum class ValueId : uint32_t {};
[[nodiscard]] constexpr size_t index_of(ValueId id) noexcept { return static_cast<size_t>(id); }
/// Stands for an optional operand that is left out.
inline constexpr ValueId kNoValue{0xFFFF'FFFFU};

/// The result of one op, which never changes. Memory that does change (a KV cache) is a chain of
/// values: each write takes the current version of the state and makes the next version. So passes
/// cannot reorder reads and writes, and cannot remove a write as dead code.
struct Value {
  ValueType type;
  std::optional<uint32_t> state;  // the slot of the state, if this value is a version of a state
};

/// The constants of a node. An op uses only the attributes that its signature names
/// (tensor/op_list.inl). `empty` has no attribute for its type, because its result has the type.
struct NodeAttributes {
  OpFunction function = OpFunction::none;
  float epsilon = 0;
  int dim = 0;
  SymInt begin;
  SymInt length;
  float scale = 0;
  float k_scale = 1;
  float v_scale = 1;
  int64_t sliding_window = 0;
  int64_t chunk_size = 0;
  float soft_cap = 0;
  int64_t groups = 0;
  int64_t top_groups = 0;
  float least = 0;
  float limit = 0;
  DType dtype = DType::f32;
  int64_t ranks = 0;
  uint32_t group = 0;                // position in Program::groups
  const CustomOp* custom = nullptr;  // owned by the code that registered it

  friend bool operator==(const NodeAttributes&, const NodeAttributes&) = default;
};

/// One op call. Its outputs are, in this order: the results of the op, the next versions of the
/// states that the op writes, and the new value of the buffer that it overwrites.
struct Node {
  OpCode op = OpCode::empty;
  NodeAttributes attributes;
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
  // The module in the model, for messages; it does not change what the program computes.
  std::string location;
};

struct ProgramInput {
  std::string name;  // identifier, unique in the program
  ValueId value{};
  // Memory that attention overwrites; its content before the run is undefined.
  bool is_buffer = false;
};

/// The attributes that an op reads, in the order in which the program's text prints them.
[[nodiscard]] std::span<const Attribute> attributes_of(OpCode op) noexcept;
/// The name in the program's text, such as "epsilon".
[[nodiscard]] inline std::string_view attribute_name(Attribute attribute) noexcept {
  return kAttributeNames[static_cast<size_t>(attribute)];
}
/// Calls `visit` with a pointer to the member of NodeAttributes that holds the attribute.
template <typename Visit>
decltype(auto) visit_member_of(Attribute attribute, Visit&& visit) {
  switch (attribute) {
    case Attribute::function:
      return visit(&NodeAttributes::function);
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
    case Attribute::k_scale:
      return visit(&NodeAttributes::k_scale);
    case Attribute::v_scale:
      return visit(&NodeAttributes::v_scale);
    case Attribute::sliding_window:
      return visit(&NodeAttributes::sliding_window);
    case Attribute::chunk_size:
      return visit(&NodeAttributes::chunk_size);
    case Attribute::soft_cap:
      return visit(&NodeAttributes::soft_cap);
    case Attribute::groups:
      return visit(&NodeAttributes::groups);
    case Attribute::top_groups:
      return visit(&NodeAttributes::top_groups);
    case Attribute::least:
      return visit(&NodeAttributes::least);
    case Attribute::limit:
      return visit(&NodeAttributes::limit);
    case Attribute::dtype:
      return visit(&NodeAttributes::dtype);
    case Attribute::ranks:
      return visit(&NodeAttributes::ranks);
    case Attribute::group:
      return visit(&NodeAttributes::group);
  }
  return visit(&NodeAttributes::length);
}

/// A program in SSA form: every value has one definition (an input, a slot or a node), which comes
/// before all its uses. Nodes refer to parameters and states by slot numbers, so two layers with
/// the same ops are equal programs. Program is a value type: copies are independent, and equal
/// texts mean equal programs. verify() tells whether a program is well formed.
///
/// A `row_group` node runs a group: a program of row-wise ops with inputs only (no parameters, no
/// states), in which no row depends on another row. Equal groups are stored once, and code is
/// generated once for each.
struct Program {
  std::vector<Program> groups;
  std::vector<Value> values;
  std::vector<ProgramInput> inputs;
  std::vector<ValueId> parameters;  // by slot
  std::vector<ValueId> states;      // for each slot, the version before the first node
  std::vector<Node> nodes;          // in order of execution
  std::vector<ValueId> outputs;
  std::vector<ValueId> final_states;  // for each slot, the version after the last node

  [[nodiscard]] const Value& value(ValueId id) const { return values.at(index_of(id)); }
  [[nodiscard]] const ValueType& type(ValueId id) const { return value(id).type; }

  [[nodiscard]] ValueId add_value(ValueType type, std::optional<uint32_t> state = std::nullopt);
  [[nodiscard]] ValueId add_input(std::string name, ValueType type, bool is_buffer = false);
  [[nodiscard]] ValueId add_parameter(ValueType type);
  /// Adds a state slot that the program does not change yet.
  [[nodiscard]] ValueId add_state(ValueType type);
  /// Adds the version that follows `version`. It becomes the final version of its state.
  [[nodiscard]] ValueId add_next_version(ValueId version);
};

/// A program breaks a rule. verify() wrote the message.
class ProgramError : public Error {
 public:
  using Error::Error;
};

/// Which operands an op writes, which of them may be left out, and how many results it has.
struct OpSignature {
  size_t num_inputs = 0;
  size_t num_results = 0;          // the first outputs of a node
  std::span<const size_t> states;  // positions of operands that must be states
  bool writes_states = false;      // true: a node also outputs the next version of each state
  // Operand that is overwritten; its new value is the node's last output.
  std::optional<size_t> out_buffer;
  std::span<const size_t> optional_inputs;  // positions of operands that may be left out

  /// The number of outputs of a node with this op.
  [[nodiscard]] size_t num_outputs() const noexcept {
    return num_results + (writes_states ? states.size() : 0) + (out_buffer ? 1 : 0);
  }
};
/// \pre a row_group's group exists, and a custom op has its CustomOp, as in every verified program
[[nodiscard]] OpSignature signature_of(const Program& program, const Node& node);
/// The signature of a call. \pre the op is not row_group, which only programs have
[[nodiscard]] OpSignature signature_of(const OpCall& call);
/// Sets num_inputs to leave out the optional operands at the end of the op's signature that the
/// node does not have.
void leave_out_last_operands(Node& node);
/// All ops, and the op that has a name.
[[nodiscard]] std::span<const OpCode> all_ops() noexcept;
[[nodiscard]] std::optional<OpCode> parse_op_name(std::string_view name) noexcept;

/// The op call for a node, with the sizes that these symbol values give.
[[nodiscard]] OpCall call_of(const Program& program, const Node& node, const SymbolValues& values);

}  // namespace reprise::program
