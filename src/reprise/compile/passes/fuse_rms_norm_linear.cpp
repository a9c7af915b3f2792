#include "reprise/compile/passes/fuse_rms_norm_linear.h"

#include <optional>
#include <utility>

#include "reprise/compile/passes/program_edit.h"

namespace reprise::compile {
namespace {

using program::kNoValue;
using program::Node;
using program::Program;

std::optional<OpCode> with_norm(OpCode product) {
  switch (product) {
    case OpCode::linear_silu_and_mul:
      return OpCode::rms_norm_linear_silu_and_mul;
    case OpCode::linear_rope_kv_write:
      return OpCode::rms_norm_linear_rope_kv_write;
    case OpCode::lm_head:
      return OpCode::rms_norm_lm_head;
    default:
      return std::nullopt;
  }
}

// Whether the product can take in a norm with this epsilon. An op has only one epsilon, which any
// norms of heads in the product use already.
bool is_epsilon_free(const Node& product, float epsilon) {
  constexpr size_t kQNorm = 8;
  return product.op != OpCode::linear_rope_kv_write || product.inputs[kQNorm] == kNoValue ||
         product.attributes.epsilon == epsilon;
}

}  // namespace

size_t fuse_rms_norm_linear(Program& program, const NodePredicate& has_kernel) {
  ProgramEdit edit(program);
  size_t num_rewrites = 0;
  for (Node& product : program.nodes) {
    const std::optional<OpCode> op = with_norm(product.op);
    if (!op) continue;
    const std::optional<size_t> index = edit.definition(product.inputs[0], OpCode::rms_norm);
    if (!index || edit.num_uses(product.inputs[0]) != 1) continue;
    const Node& norm = program.nodes[*index];
    if (!is_epsilon_free(product, norm.attributes.epsilon)) continue;
    Node fused = product;
    fused.op = *op;
    fused.attributes.epsilon = norm.attributes.epsilon;
    fused.inputs[0] = norm.inputs[0];
    fused.inputs.push_back(norm.inputs[1]);
    if (has_kernel && !has_kernel(program, fused)) continue;
    product = std::move(fused);
    edit.erase(*index);
    ++num_rewrites;
  }
  std::move(edit).finish();
  return num_rewrites;
}

}  // namespace reprise::compile
