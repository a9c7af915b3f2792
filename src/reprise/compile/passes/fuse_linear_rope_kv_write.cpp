#include "reprise/compile/passes/fuse_linear_rope_kv_write.h"

#include <optional>
#include <utility>

#include "reprise/compile/passes/program_edit.h"

namespace reprise::compile {
namespace {

using program::Node;
using program::Program;
using program::SymInt;
using program::ValueId;

class LinearRopeKvWriteFuser {
 public:
  LinearRopeKvWriteFuser(Program& program, const NodePredicate& has_kernel)
      : program_(program), edit_(program), has_kernel_(has_kernel) {}

  size_t run() && {
    size_t num_rewrites = 0;
    for (Node& node : program_.nodes) {
      if (node.op == OpCode::rope_kv_write && fuse(node)) ++num_rewrites;
    }
    std::move(edit_).finish();
    return num_rewrites;
  }

 private:
  bool fuse(Node& rope) {
    const std::optional<size_t> linear_index = product_behind(rope);
    if (!linear_index) return false;
    const Node& linear = program_.nodes[*linear_index];
    Node fused{.op = OpCode::linear_rope_kv_write,
               .attributes = rope.attributes,
               .inputs = linear.inputs,
               .outputs = rope.outputs,
               .location = linear.location};
    fused.attributes.length = program_.type(rope.inputs[0]).shape[1];
    fused.inputs.insert(fused.inputs.end(), rope.inputs.begin() + 3, rope.inputs.end());
    if (has_kernel_ && !has_kernel_(program_, fused)) return false;
    for (size_t operand = 0; operand < 3; ++operand) {
      const size_t unflatten = *edit_.definition(rope.inputs[operand]);
      edit_.erase(*edit_.definition(program_.nodes[unflatten].inputs[0]));
      edit_.erase(unflatten);
    }
    edit_.erase(*linear_index);
    rope = std::move(fused);
    return true;
  }

  // Finds the linear whose columns are exactly q, k and v in this order. Each of them must be used
  // only once.
  [[nodiscard]] std::optional<size_t> product_behind(const Node& rope) const {
    std::optional<ValueId> product;
    int64_t column = 0;
    for (size_t operand = 0; operand < 3; ++operand) {
      const Node* unflatten = only_use(rope.inputs[operand], OpCode::unflatten);
      const Node* slice = unflatten ? only_use(unflatten->inputs[0], OpCode::slice) : nullptr;
      if (slice == nullptr || slice->attributes.dim != 1) return std::nullopt;
      if (product && *product != slice->inputs[0]) return std::nullopt;
      product = slice->inputs[0];
      if (slice->attributes.begin != SymInt(column)) return std::nullopt;
      column += slice->attributes.length.constant();
    }
    const std::optional<size_t> linear = edit_.definition(*product, OpCode::linear);
    if (!linear || edit_.num_uses(*product) != 3) return std::nullopt;
    return program_.type(*product).shape[1] == SymInt(column) ? linear : std::nullopt;
  }
  [[nodiscard]] const Node* only_use(ValueId value, OpCode op) const {
    const std::optional<size_t> node = edit_.definition(value, op);
    return node && edit_.num_uses(value) == 1 ? &program_.nodes[*node] : nullptr;
  }

  Program& program_;
  ProgramEdit edit_;
  const NodePredicate& has_kernel_;
};

}  // namespace

size_t fuse_linear_rope_kv_write(Program& program, const NodePredicate& has_kernel) {
  return LinearRopeKvWriteFuser(program, has_kernel).run();
}

}  // namespace reprise::compile
