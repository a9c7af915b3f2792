#include "reprise/compile/passes/fuse_act_quant.h"

#include <optional>
#include <utility>

#include "reprise/compile/passes/program_edit.h"

namespace reprise::compile {

using program::Node;
using program::Program;

size_t fuse_act_quant(Program& program, const NodePredicate& has_kernel) {
  ProgramEdit edit(program);
  size_t num_rewrites = 0;
  for (Node& quantize : program.nodes) {
    if (quantize.op != OpCode::quantize_per_token) continue;
    const std::optional<size_t> silu = edit.definition(quantize.inputs[0], OpCode::silu_and_mul);
    if (!silu || edit.num_uses(quantize.inputs[0]) != 1) continue;
    Node fused{.op = OpCode::silu_and_mul_quant,
               .attributes = quantize.attributes,
               .inputs = program.nodes[*silu].inputs,
               .outputs = quantize.outputs,
               .location = program.nodes[*silu].location};
    if (has_kernel && !has_kernel(program, fused)) continue;
    quantize = std::move(fused);
    edit.erase(*silu);
    ++num_rewrites;
  }
  std::move(edit).finish();
  return num_rewrites;
}

}  // namespace reprise::compile
