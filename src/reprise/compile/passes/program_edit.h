#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "reprise/program/program.h"

namespace reprise::compile {

/// Edits one program in a walk over its nodes from first to last. Nodes keep their index until
/// finish(), which removes erased nodes, adds inserted nodes and renumbers the values. Borrows the
/// program, which is not well formed before finish().
class ProgramEdit {
 public:
  explicit ProgramEdit(program::Program& program);

  /// Returns a node, after replacing its operands by the replacements made so far.
  [[nodiscard]] program::Node& visit(size_t node);
  /// Makes later nodes use `by` instead of `value`. \pre `by` has not been replaced itself
  void replace(program::ValueId value, program::ValueId by);
  void erase(size_t node) { is_erased_[node] = true; }
  [[nodiscard]] bool is_erased(size_t node) const { return is_erased_[node]; }
  /// Adds a value. An inserted or changed node must define it.
  [[nodiscard]] program::ValueId add_value(const program::ValueType& type);
  /// Inserts a node before the node with index `node`. Several nodes inserted there keep their
  /// order. The index after the last node inserts at the end.
  void insert_before(size_t node, program::Node inserted);
  void finish() &&;

  /// The node that defined a value before the edit; nullopt for inputs and slots.
  [[nodiscard]] std::optional<size_t> definition(program::ValueId value) const;
  /// The same, but only if that node has the op `op` and is not erased.
  [[nodiscard]] std::optional<size_t> definition(program::ValueId value, OpCode op) const;
  /// The nodes that had a value as an operand before the edit, in order. A node occurs once for
  /// each such operand.
  [[nodiscard]] std::span<const size_t> users(program::ValueId value) const;
  /// How often a value was used before the edit: as an operand, an output or the final version of a
  /// state.
  [[nodiscard]] size_t num_uses(program::ValueId value) const { return num_uses_[index_of(value)]; }
  /// Whether the program returns the value, after the replacements made so far.
  [[nodiscard]] bool is_returned(program::ValueId value) const;

 private:
  [[nodiscard]] program::ValueId current(program::ValueId value) const;

  program::Program* program_;  // owned by the caller
  // By value: its replacement, or the value itself.
  std::vector<program::ValueId> replaced_by_;
  std::vector<std::optional<size_t>> definition_;  // by value
  std::vector<std::vector<size_t>> users_;         // by value
  std::vector<size_t> num_uses_;                   // by value
  std::vector<bool> is_erased_;                    // by node
  std::vector<std::pair<size_t, program::Node>> inserted_;
};

}  // namespace reprise::compile
