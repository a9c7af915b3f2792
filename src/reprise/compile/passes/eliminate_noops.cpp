#include "reprise/compile/passes/eliminate_noops.h"

#include <algorithm>
#include <optional>

#include "reprise/compile/passes/program_edit.h"

namespace reprise::compile {
namespace {

using program::Node;
using program::Program;
using program::Symbol;
using program::SymInt;
using program::ValueId;

// a + b, or nullopt if the sum is not affine in one symbol.
std::optional<SymInt> sum(const SymInt& a, const SymInt& b) {
  if (!a.is_constant() && !b.is_constant() && a.symbol() != b.symbol()) return std::nullopt;
  return SymInt(a.is_constant() ? b.symbol() : a.symbol(),
                a.coefficient() + b.coefficient(),
                a.constant() + b.constant());
}

class NoopEliminator {
 public:
  explicit NoopEliminator(Program& program) : program_(program), edit_(program) {}

  size_t run() && {
    for (size_t i = 0; i < program_.nodes.size(); ++i) {
      Node& node = edit_.visit(i);
      if (node.op == OpCode::slice && merge_slices(node)) ++num_rewrites_;
      const std::optional<ValueId> shown = shown_by(node);
      if (!shown) continue;
      edit_.replace(node.outputs[0], *shown);
      edit_.erase(i);
      ++num_rewrites_;
    }
    std::move(edit_).finish();
    return num_rewrites_;
  }

 private:
  [[nodiscard]] const Node* definition(ValueId value) const {
    const std::optional<size_t> node = edit_.definition(value);
    return node ? &program_.nodes[*node] : nullptr;
  }

  bool merge_slices(Node& node) const {
    const Node* inner = definition(node.inputs[0]);
    if (inner == nullptr || inner->op != OpCode::slice) return false;
    if (inner->attributes.dim != node.attributes.dim) return false;
    const std::optional<SymInt> begin = sum(inner->attributes.begin, node.attributes.begin);
    if (!begin) return false;
    node.attributes.begin = *begin;
    node.inputs[0] = inner->inputs[0];
    return true;
  }

  // The value that a view repeats unchanged: with the same elements, shape and strides.
  [[nodiscard]] std::optional<ValueId> shown_by(const Node& node) const {
    const std::optional<ValueId> shown = find_shown(node);
    // If that value is a parameter, the view stays: a program cannot return a parameter, but it can
    // return a view of one.
    const bool is_parameter =
        shown && std::find(program_.parameters.begin(), program_.parameters.end(), *shown) !=
                     program_.parameters.end();
    if (is_parameter && edit_.is_returned(node.outputs[0])) return std::nullopt;
    return shown;
  }
  [[nodiscard]] std::optional<ValueId> find_shown(const Node& node) const {
    if (node.op == OpCode::slice) {
      const SymInt& size = program_.type(node.inputs[0]).shape[node.attributes.dim];
      // A slice as long as the dimension can only start at 0.
      return node.attributes.length == size ? std::optional(node.inputs[0]) : std::nullopt;
    }
    if (node.op != OpCode::flatten && node.op != OpCode::unflatten) return std::nullopt;
    const Node* inner = definition(node.inputs[0]);
    const OpCode inverse = node.op == OpCode::flatten ? OpCode::unflatten : OpCode::flatten;
    if (inner == nullptr || inner->op != inverse) return std::nullopt;
    // flatten requires that heads are adjacent, so equal shapes mean equal strides.
    const bool is_same = program_.type(node.outputs[0]) == program_.type(inner->inputs[0]);
    return is_same ? std::optional(inner->inputs[0]) : std::nullopt;
  }

  Program& program_;
  ProgramEdit edit_;
  size_t num_rewrites_ = 0;
};

size_t eliminate_unused_memory(Program& program) {
  ProgramEdit edit(program);
  size_t num_rewrites = 0;
  for (size_t i = 0; i < program.nodes.size(); ++i) {
    const Node& node = program.nodes[i];
    if (node.op != OpCode::empty || edit.num_uses(node.outputs[0]) != 0) continue;
    edit.erase(i);
    ++num_rewrites;
  }
  std::move(edit).finish();
  return num_rewrites;
}

}  // namespace

size_t eliminate_noops(Program& program) {
  const size_t num_views = NoopEliminator(program).run();
  // Removed views may have been the only users of some memory.
  return num_views + eliminate_unused_memory(program);
}

}  // namespace reprise::compile
