#include "reprise/compile/passes/fuse_linear_silu_and_mul.h"

#include <optional>
#include <utility>

#include "reprise/compile/passes/program_edit.h"

namespace reprise::compile {

using program::Node;
using program::Program;

size_t fuse_linear_silu_and_mul(Program& program, const NodePredicate& has_kernel) {
  ProgramEdit edit(program);
  size_t num_rewrites = 0;
  for (Node& silu : program.nodes) {
    if (silu.op != OpCode::silu_and_mul) continue;
    const std::optional<size_t> linear = edit.definition(silu.inputs[0], OpCode::linear);
    if (!linear || edit.num_uses(silu.inputs[0]) != 1) continue;
    Node fused{.op = OpCode::linear_silu_and_mul,
               .inputs = program.nodes[*linear].inputs,
               .outputs = silu.outputs,
               .location = program.nodes[*linear].location};
    if (has_kernel && !has_kernel(program, fused)) continue;
    silu = std::move(fused);
    edit.erase(*linear);
    ++num_rewrites;
  }
  std::move(edit).finish();
  return num_rewrites;
}

}  // namespace reprise::compile
