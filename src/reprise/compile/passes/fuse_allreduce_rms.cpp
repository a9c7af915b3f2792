#include "reprise/compile/passes/fuse_allreduce_rms.h"

#include <optional>
#include <utility>

#include "reprise/compile/passes/program_edit.h"

namespace reprise::compile {
namespace {

using program::kNoValue;
using program::Node;
using program::Program;
using program::ValueId;

class AllReduceFuser {
 public:
  AllReduceFuser(Program& program, const NodePredicate& has_kernel)
      : program_(program), edit_(program), has_kernel_(has_kernel) {}

  size_t run() && {
    size_t num_rewrites = 0;
    for (size_t i = 0; i < program_.nodes.size(); ++i) {
      const OpCode op = program_.nodes[i].op;
      const bool is_fused = (op == OpCode::rms_norm && fuse_norm(i)) ||
                            (op == OpCode::fused_add_rms_norm && fuse_sum(i));
      num_rewrites += is_fused ? 1 : 0;
    }
    std::move(edit_).finish();
    return num_rewrites;
  }

 private:
  // The fused node replaces the all-reduce, because other nodes may use that result before the
  // norm.
  bool fuse_norm(size_t index) {
    const Node& norm = program_.nodes[index];
    const std::optional<size_t> reduce = edit_.definition(norm.inputs[0], OpCode::all_reduce);
    if (!reduce || edit_.definition(norm.inputs[1]).value_or(0) > *reduce) return false;
    Node fused = fused_with(norm, *reduce, kNoValue, norm.inputs[1]);
    fused.outputs.push_back(norm.inputs[0]);
    if (has_kernel_ && !has_kernel_(program_, fused)) return false;
    program_.nodes[*reduce] = std::move(fused);
    edit_.erase(index);
    return true;
  }

  // The fused node replaces the norm. The sum may have its operands in either order.
  bool fuse_sum(size_t index) {
    const Node& norm = program_.nodes[index];
    for (size_t operand : {size_t{0}, size_t{1}}) {
      const ValueId reduced = norm.inputs[operand];
      const std::optional<size_t> reduce = edit_.definition(reduced, OpCode::all_reduce);
      if (!reduce || edit_.num_uses(reduced) != 1) continue;
      Node fused = fused_with(norm, *reduce, norm.inputs[1 - operand], norm.inputs[2]);
      if (has_kernel_ && !has_kernel_(program_, fused)) continue;
      program_.nodes[index] = std::move(fused);
      edit_.erase(*reduce);
      return true;
    }
    return false;
  }

  [[nodiscard]] Node fused_with(const Node& norm,
                                size_t reduce,
                                ValueId residual,
                                ValueId weight) const {
    return {.op = OpCode::fused_all_reduce_add_rms_norm,
            .attributes = {.epsilon = norm.attributes.epsilon,
                           .ranks = program_.nodes[reduce].attributes.ranks},
            .inputs = {program_.nodes[reduce].inputs[0], residual, weight},
            .outputs = norm.outputs,
            .location = norm.location};
  }

  Program& program_;
  ProgramEdit edit_;
  const NodePredicate& has_kernel_;
};

}  // namespace

size_t fuse_allreduce_rms(Program& program, const NodePredicate& has_kernel) {
  return AllReduceFuser(program, has_kernel).run();
}

}  // namespace reprise::compile
