#include "reprise/compile/passes/fuse_attn_quant.h"

#include <optional>
#include <utility>

#include "reprise/compile/passes/program_edit.h"

namespace reprise::compile {
namespace {

using program::Node;
using program::Program;
using program::ValueId;

class AttentionQuantFuser {
 public:
  AttentionQuantFuser(Program& program, const NodePredicate& has_kernel)
      : program_(program), edit_(program), has_kernel_(has_kernel) {}

  size_t run() && {
    size_t num_rewrites = 0;
    for (size_t i = 0; i < program_.nodes.size(); ++i) {
      if (program_.nodes[i].op == OpCode::quantize_static && fuse(i)) ++num_rewrites;
    }
    std::move(edit_).finish();
    return num_rewrites;
  }

 private:
  bool fuse(size_t index) {
    const Node quantize = program_.nodes[index];
    const std::optional<size_t> flatten = edit_.definition(quantize.inputs[0], OpCode::flatten);
    if (flatten && edit_.num_uses(quantize.inputs[0]) != 1) return false;
    const ValueId result = flatten ? program_.nodes[*flatten].inputs[0] : quantize.inputs[0];
    const std::optional<size_t> attention_index = edit_.definition(result, OpCode::attention);
    if (!attention_index || edit_.num_uses(result) != 1) return false;
    Node& attention = program_.nodes[*attention_index];
    // The type of attention's output changes, so its memory must come from an `empty`: memory of
    // the caller cannot change its type.
    const std::optional<size_t> memory = edit_.definition(attention.inputs[6], OpCode::empty);
    const ValueId scale = quantize.inputs[1];
    if (!memory || edit_.definition(scale).value_or(0) > *attention_index) return false;
    Node fused{.op = OpCode::attention_quant,
               .attributes = attention.attributes,
               .inputs = attention.inputs,
               .outputs = attention.outputs,
               .location = attention.location};
    fused.inputs.insert(fused.inputs.end() - 1, scale);
    if (has_kernel_ && !has_kernel_(program_, fused)) return false;
    const DType dtype = quantize.attributes.dtype;
    program_.values[index_of(attention.inputs[6])].type.dtype = dtype;
    program_.values[index_of(result)].type.dtype = dtype;
    if (flatten) program_.values[index_of(quantize.inputs[0])].type.dtype = dtype;
    attention = std::move(fused);
    edit_.replace(quantize.outputs[0], quantize.inputs[0]);
    edit_.erase(index);
    return true;
  }

  Program& program_;
  ProgramEdit edit_;
  const NodePredicate& has_kernel_;
};

}  // namespace

size_t fuse_attn_quant(Program& program, const NodePredicate& has_kernel) {
  return AttentionQuantFuser(program, has_kernel).run();
}

}  // namespace reprise::compile
