#include "reprise/compile/passes/fuse_block_linear.h"

#include <optional>
#include <utility>
#include <vector>

#include "reprise/compile/passes/program_edit.h"

namespace reprise::compile {

using program::Node;
using program::Program;
using program::ValueId;

namespace {

class BlockLinearFuser {
 public:
  BlockLinearFuser(Program& program, const NodePredicate& has_kernel)
      : program_(program), has_kernel_(has_kernel), edit_(program) {}

  size_t run() && {
    for (Node& node : program_.nodes) {
      if (node.op == OpCode::add) fuse_add(node);
      if (node.op == OpCode::silu_and_mul) fuse_silu_and_mul(node);
      if (node.op == OpCode::quantize_blocks) fuse_quantize(node);
    }
    std::move(edit_).finish();
    return num_rewrites_;
  }

 private:
  // The op that defines a value which only one op uses.
  [[nodiscard]] std::optional<size_t> only_use(ValueId value, OpCode op) const {
    const std::optional<size_t> definition = edit_.definition(value, op);
    return definition && edit_.num_uses(value) == 1 ? definition : std::nullopt;
  }

  // `node` becomes `op` with the operands of the node before it, which is erased.
  bool fuse(Node& node, size_t before, OpCode op, std::vector<ValueId> more_inputs = {}) {
    const Node& first = program_.nodes[before];
    Node fused{.op = op,
               .attributes = first.attributes,
               .inputs = first.inputs,
               .outputs = node.outputs,
               .location = first.location};
    fused.inputs.insert(fused.inputs.end(), more_inputs.begin(), more_inputs.end());
    if (op == OpCode::block_linear_add || op == OpCode::int8_linear_add) fused.attributes = {};
    if (op == OpCode::rms_norm_quantize_blocks) fused.attributes.dtype = node.attributes.dtype;
    if (has_kernel_ && !has_kernel_(program_, fused)) return false;
    node = std::move(fused);
    edit_.erase(before);
    ++num_rewrites_;
    return true;
  }

  void fuse_add(Node& add) {
    for (size_t operand : {size_t{1}, size_t{0}}) {
      for (const auto& [product_op, fused_op] :
           {std::pair(OpCode::block_linear, OpCode::block_linear_add),
            std::pair(OpCode::int8_linear, OpCode::int8_linear_add)}) {
        const auto product = only_use(add.inputs[operand], product_op);
        if (product && fuse(add, *product, fused_op, {add.inputs[1 - operand]})) return;
      }
    }
  }

  void fuse_silu_and_mul(Node& silu) {
    if (const auto product = only_use(silu.inputs[0], OpCode::block_linear)) {
      fuse(silu, *product, OpCode::block_linear_silu_and_mul);
    } else if (const auto int8_product = only_use(silu.inputs[0], OpCode::int8_linear)) {
      fuse(silu, *int8_product, OpCode::int8_linear_silu_and_mul);
    }
  }

  void fuse_quantize(Node& quantize) {
    const ValueId x = quantize.inputs[0];
    if (const auto norm = only_use(x, OpCode::rms_norm)) {
      fuse(quantize, *norm, OpCode::rms_norm_quantize_blocks);
    } else if (const auto gated = only_use(x, OpCode::block_linear_silu_and_mul)) {
      fuse(quantize, *gated, OpCode::block_linear_silu_and_mul_quantize_blocks);
    }
  }

  Program& program_;
  const NodePredicate& has_kernel_;
  ProgramEdit edit_;
  size_t num_rewrites_ = 0;
};

}  // namespace

size_t fuse_block_linear(Program& program, const NodePredicate& has_kernel) {
  return BlockLinearFuser(program, has_kernel).run();
}

}  // namespace reprise::compile
