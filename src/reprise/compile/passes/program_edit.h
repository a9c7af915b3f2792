#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "reprise/program/program.h"

namespace reprise::compile {

/// Changes to one program, made while walking over its nodes from first to last. Nodes keep their
/// index until finish(), which takes out what was erased and renumbers values. The program is
/// borrowed and is not well formed in between.
class ProgramEdit {
 public:
  explicit ProgramEdit(program::Program& program);

  /// The node, its operands as replaced so far.
  [[nodiscard]] program::Node& visit(size_t node);
  /// From now on `by` is used wherever `value` was.
  /// \pre `by` is no value that has itself been replaced
  void replace(program::ValueId value, program::ValueId by);
  void erase(size_t node) { is_erased_[node] = true; }
  void finish() &&;

  /// The node that defines a value; nothing for inputs and slots.
  [[nodiscard]] std::optional<size_t> definition(program::ValueId value) const {
    return definition_[index_of(value)];
  }
  /// How often a value is operand, output or last version of a state. As before the edit.
  [[nodiscard]] size_t num_uses(program::ValueId value) const { return num_uses_[index_of(value)]; }
  /// With replacements so far.
  [[nodiscard]] bool is_returned(program::ValueId value) const;

 private:
  [[nodiscard]] program::ValueId current(program::ValueId value) const;

  program::Program* program_;                      // owned by the caller
  std::vector<program::ValueId> replaced_by_;      // by value; itself where nothing changed
  std::vector<std::optional<size_t>> definition_;  // by value
  std::vector<size_t> num_uses_;                   // by value
  std::vector<bool> is_erased_;                    // by node
};

}  // namespace reprise::compile
