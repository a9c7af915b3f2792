#include "reprise/compile/passes/fuse_norm_quant.h"

#include <optional>
#include <utility>

#include "reprise/compile/passes/program_edit.h"

namespace reprise::compile {

using program::Node;
using program::Program;

size_t fuse_norm_quant(Program& program, const NodePredicate& has_kernel) {
  ProgramEdit edit(program);
  size_t num_rewrites = 0;
  for (size_t i = 0; i < program.nodes.size(); ++i) {
    const Node& quantize = program.nodes[i];
    if (quantize.op != OpCode::quantize_per_token) continue;
    const std::optional<size_t> norm_index = edit.definition(quantize.inputs[0]);
    if (!norm_index || edit.is_erased(*norm_index)) continue;
    Node& norm = program.nodes[*norm_index];
    const bool has_sum = norm.op == OpCode::fused_add_rms_norm;
    if (norm.op != OpCode::rms_norm && !has_sum) continue;
    if (norm.outputs[0] != quantize.inputs[0] || edit.num_uses(norm.outputs[0]) != 1) continue;
    Node fused{
        .op = has_sum ? OpCode::fused_add_rms_norm_quant : OpCode::rms_norm_quant,
        .attributes = {.epsilon = norm.attributes.epsilon, .dtype = quantize.attributes.dtype},
        .inputs = norm.inputs,
        .outputs = quantize.outputs,
        .location = norm.location};
    if (has_sum) fused.outputs.push_back(norm.outputs[1]);
    if (has_kernel && !has_kernel(program, fused)) continue;
    // The fused node replaces the norm, because nodes before the quantisation may use the sum.
    norm = std::move(fused);
    edit.erase(i);
    ++num_rewrites;
  }
  std::move(edit).finish();
  return num_rewrites;
}

}  // namespace reprise::compile
