#include "reprise/compile/passes/fuse_linear_add.h"

#include <optional>
#include <utility>

#include "reprise/compile/passes/program_edit.h"

namespace reprise::compile {
using program::Node;
using program::Program;

size_t fuse_linear_add(Program& program, const NodePredicate& has_kernel) {
  ProgramEdit edit(program);
  size_t num_rewrites = 0;
  for (Node& add : program.nodes) {
    if (add.op != OpCode::add) continue;
    for (size_t operand : {size_t{1}, size_t{0}}) {
      const std::optional<size_t> linear = edit.definition(add.inputs[operand], OpCode::linear);
      if (!linear || edit.num_uses(add.inputs[operand]) != 1) continue;
      Node fused{.op = OpCode::linear_add,
                 .inputs = program.nodes[*linear].inputs,
                 .outputs = add.outputs,
                 .location = program.nodes[*linear].location};
      fused.inputs.push_back(add.inputs[1 - operand]);
      if (has_kernel && !has_kernel(program, fused)) continue;
      add = std::move(fused);
      edit.erase(*linear);
      ++num_rewrites;
      break;
    }
  }
  std::move(edit).finish();
  return num_rewrites;
}

}  // namespace reprise::compile
