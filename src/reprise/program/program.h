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
  DType dtype = DType::f32;
  int64_t ranks = 0;
  uint32_t group = 0;                // position in Program::groups
  const CustomOp* custom = nullptr;  // owned by whoever registered it

  friend bool operator==(const NodeAttributes&, const NodeAttributes&) = default;
};

/// One op call. After the results of op.h come the next versions of the states that it writes, and
/// of attention `out` as it is afterwards.
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

/// Which constants an op reads, in the order of its text.
enum class Attribute : uint8_t {
  dim,
  begin,
  length,
  heads,  // NodeAttributes::length under another name
  epsilon,
  scale,
  sliding_window,  // left out of the text when 0
  dtype,
  ranks,
  group,
};
[[nodiscard]] std::span<const Attribute> attributes_of(OpCode op) noexcept;
/// "epsilon"
[[nodiscard]] std::string_view attribute_name(Attribute attribute) noexcept;

/// Functional SSA: every value has one definition (an input, a slot, or a node) before all its
/// uses. Parameters and states are slots, so that layers with equal code are equal programs. A
/// value type: copy it, compare its text. verify() says whether it is well formed.
///
/// A `row_group` node runs a group: a program of row-wise ops over inputs alone (no parameters, no
/// states), whose rows are independent of each other. Code is generated per group, so equal groups
/// stand here once.
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
  size_t num_results = 0;                   // that the op computes: first among a node's outputs
  std::span<const size_t> states;           // operands that must be state
  bool writes_states = false;               // their next versions are the other outputs
  std::optional<size_t> out_buffer;         // operand that is overwritten; the only output holds it
  std::span<const size_t> optional_inputs;  // operands that may be left out

  /// Of a node.
  [[nodiscard]] size_t num_outputs() const noexcept {
    return num_results + (writes_states ? states.size() : 0) + (out_buffer ? 1 : 0);
  }
};
/// \pre a row_group's group exists and a custom op is named, as in every verified program
[[nodiscard]] OpSignature signature_of(const Program& program, const Node& node);
/// Same, from a call. \pre not row_group, which is only ever one of a program
[[nodiscard]] OpSignature signature_of(const OpCall& call);
/// Whether a row of each result depends on one row of the operands (and on tables and weights):
/// what groups are made of.
[[nodiscard]] bool is_row_wise(OpCode op) noexcept;
/// All ops, and the one of that name.
[[nodiscard]] std::span<const OpCode> all_ops() noexcept;
[[nodiscard]] std::optional<OpCode> parse_op_name(std::string_view name) noexcept;

/// The call that a node stands for when symbols have these values.
[[nodiscard]] OpCall call_of(const Program& program, const Node& node, const SymbolValues& values);

}  // namespace reprise::program
