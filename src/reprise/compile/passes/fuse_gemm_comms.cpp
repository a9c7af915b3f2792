#include "reprise/compile/passes/fuse_gemm_comms.h"

#include <optional>
#include <utility>

#include "reprise/compile/passes/program_edit.h"

namespace reprise::compile {

using program::Node;
using program::Program;

size_t fuse_gemm_comms(Program& program, const NodePredicate& has_kernel) {
  ProgramEdit edit(program);
  size_t num_rewrites = 0;
  for (Node& second : program.nodes) {
    const bool scatters = second.op == OpCode::reduce_scatter;
    if (!scatters && second.op != OpCode::linear) continue;
    const std::optional<size_t> first =
        edit.definition(second.inputs[0], scatters ? OpCode::linear : OpCode::all_gather);
    if (!first || edit.num_uses(second.inputs[0]) != 1) continue;
    const Node& inner = program.nodes[*first];
    const Node& linear = scatters ? inner : second;
    if (!program.type(linear.inputs[1]).layout.is_rows()) continue;
    Node fused{.op = scatters ? OpCode::linear_reduce_scatter : OpCode::all_gather_linear,
               .attributes = scatters ? second.attributes : inner.attributes,
               .inputs = {inner.inputs[0], linear.inputs[1], linear.inputs[2]},
               .outputs = second.outputs,
               .location = linear.location};
    if (has_kernel && !has_kernel(program, fused)) continue;
    second = std::move(fused);
    edit.erase(*first);
    ++num_rewrites;
  }
  std::move(edit).finish();
  return num_rewrites;
}

}  // namespace reprise::compile
