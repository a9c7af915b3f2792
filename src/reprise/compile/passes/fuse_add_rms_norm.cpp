#include "reprise/compile/passes/fuse_add_rms_norm.h"

#include <optional>

#include "reprise/compile/passes/program_edit.h"

namespace reprise::compile {

using program::Node;
using program::Program;
using program::ValueId;

size_t fuse_add_rms_norm(Program& program) {
  ProgramEdit edit(program);
  size_t num_rewrites = 0;
  for (size_t i = 0; i < program.nodes.size(); ++i) {
    const Node& norm = edit.visit(i);
    if (norm.op != OpCode::rms_norm) continue;
    const ValueId sum = norm.inputs[0];
    const ValueId weight = norm.inputs[1];
    const std::optional<size_t> add_index = edit.definition(sum);
    if (!add_index || program.nodes[*add_index].op != OpCode::add) continue;
    // The fused op replaces the sum and not the norm, because other nodes may use the sum before
    // the norm. So the weight must be defined before that place.
    if (edit.definition(weight).value_or(0) > *add_index) continue;
    Node& add = program.nodes[*add_index];
    add = {.op = OpCode::fused_add_rms_norm,
           .attributes = {.epsilon = norm.attributes.epsilon},
           // add(a, b) is a + b, and the fused op computes residual + x: b becomes x, and a becomes
           // the residual.
           .inputs = {add.inputs[1], add.inputs[0], weight},
           .outputs = {norm.outputs[0], sum},
           .location = norm.location};
    edit.erase(i);
    ++num_rewrites;
  }
  std::move(edit).finish();
  return num_rewrites;
}

}  // namespace reprise::compile
