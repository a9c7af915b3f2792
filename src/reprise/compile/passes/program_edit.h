#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "reprise/program/program.h"

namespace reprise::compile {

/// Changes to one program, made while walking over its nodes from first to last. Nodes keep their
/// index until finish(), which takes out what was erased, puts in what was inserted and renumbers
/// values. The program is borrowed and is not well formed in between.
class ProgramEdit {
 public:
  explicit ProgramEdit(program::Program& program);

  /// The node, with the replacements so far in its operands.
  [[nodiscard]] program::Node& visit(size_t node);
  /// From now on `by` is used wherever `value` was.
  /// \pre `by` is no value that has itself been replaced
  void replace(program::ValueId value, program::ValueId by);
  void erase(size_t node) { is_erased_[node] = true; }
  [[nodiscard]] bool is_erased(size_t node) const { return is_erased_[node]; }
  /// A new value, for a node to be inserted or changed to define.
  [[nodiscard]] program::ValueId add_value(const program::ValueType& type);
  /// Nodes inserted before the same node keep the order of insertion. One past the last node is the
  /// end.
  void insert_before(size_t node, program::Node inserted);
  void finish() &&;

  /// The node that defined a value before the edit; nullopt for inputs and slots.
  [[nodiscard]] std::optional<size_t> definition(program::ValueId value) const;
  /// The same node, if it has that op and is not erased.
  [[nodiscard]] std::optional<size_t> definition(program::ValueId value, OpCode op) const;
  /// The nodes that have a value as an operand, in order, once per operand. As before the edit.
  [[nodiscard]] std::span<const size_t> users(program::ValueId value) const;
  /// How often a value is operand, output or last version of a state. As before the edit.
  [[nodiscard]] size_t num_uses(program::ValueId value) const { return num_uses_[index_of(value)]; }
  /// With replacements so far.
  [[nodiscard]] bool is_returned(program::ValueId value) const;

 private:
  [[nodiscard]] program::ValueId current(program::ValueId value) const;

  program::Program* program_;                      // owned by the caller
  std::vector<program::ValueId> replaced_by_;      // by value; itself where nothing changed
  std::vector<std::optional<size_t>> definition_;  // by value
  std::vector<std::vector<size_t>> users_;         // by value
  std::vector<size_t> num_uses_;                   // by value
  std::vector<bool> is_erased_;                    // by node
  std::vector<std::pair<size_t, program::Node>> inserted_;
};

}  // namespace reprise::compile
