#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "reprise/program/program.h"

namespace reprise::compile {

/// Changes to one program, made while walking over its nodes from first to last. Nodes keep their
/// index until finish(), which removes the erased nodes, adds the inserted nodes and renumbers the
/// values. The program is borrowed and is not well formed until then.
class ProgramEdit {
 public:
  explicit ProgramEdit(program::Program& program);

  /// The node; its operands already have all replacements so far.
  [[nodiscard]] program::Node& visit(size_t node);
  /// After this call `by` is used in place of `value`. \pre `by` was not itself replaced
  void replace(program::ValueId value, program::ValueId by);
  void erase(size_t node) { is_erased_[node] = true; }
  [[nodiscard]] bool is_erased(size_t node) const { return is_erased_[node]; }
  /// A new value, to be defined by an inserted or changed node.
  [[nodiscard]] program::ValueId add_value(const program::ValueType& type);
  /// Nodes inserted before the same node keep the order of insertion. An index one past the last
  /// node inserts at the end.
  void insert_before(size_t node, program::Node inserted);
  void finish() &&;

  /// The node that defined a value before the edit; nullopt for inputs and slots.
  [[nodiscard]] std::optional<size_t> definition(program::ValueId value) const;
  /// The same node, if it has the op `op` and is not erased.
  [[nodiscard]] std::optional<size_t> definition(program::ValueId value, OpCode op) const;
  /// The nodes that have a value as an operand, in order, once per operand; the state before the
  /// edit.
  [[nodiscard]] std::span<const size_t> users(program::ValueId value) const;
  /// The number of uses of a value as operand, output or last version of a state, before the edit.
  [[nodiscard]] size_t num_uses(program::ValueId value) const { return num_uses_[index_of(value)]; }
  /// Takes the replacements so far into account.
  [[nodiscard]] bool is_returned(program::ValueId value) const;

 private:
  [[nodiscard]] program::ValueId current(program::ValueId value) const;

  program::Program* program_;  // owned by the caller
  // by value; a value without replacement maps to itself
  std::vector<program::ValueId> replaced_by_;
  std::vector<std::optional<size_t>> definition_;  // by value
  std::vector<std::vector<size_t>> users_;         // by value
  std::vector<size_t> num_uses_;                   // by value
  std::vector<bool> is_erased_;                    // by node
  std::vector<std::pair<size_t, program::Node>> inserted_;
};

}  // namespace reprise::compile
