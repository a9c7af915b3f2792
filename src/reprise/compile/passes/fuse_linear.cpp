#include "reprise/compile/passes/fuse_linear.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "reprise/compile/passes/program_edit.h"
#include "reprise/tensor/op_table.h"

namespace reprise::compile {
namespace {

using program::kNoValue;
using program::Node;
using program::Program;
using program::SymInt;
using program::ValueId;

/// One row of the table: `first` followed by `second` becomes `fused`.
struct Fusion {
  OpCode first;
  OpCode second;
  OpCode fused;
};
// The first row that matches a node is applied.
constexpr std::array kFusions = {
    Fusion{OpCode::linear, OpCode::add, OpCode::linear_add},
    Fusion{OpCode::linear, OpCode::silu_and_mul, OpCode::linear_silu_and_mul},
    Fusion{OpCode::linear, OpCode::rope_kv_write, OpCode::linear_rope_kv_write},
    Fusion{OpCode::rms_norm, OpCode::quantize_blocks, OpCode::rms_norm_quantize_blocks},
    Fusion{OpCode::linear_silu_and_mul,
           OpCode::quantize_blocks,
           OpCode::linear_silu_and_mul_quantize_blocks},
    // The fused op takes its operand `norm` from the first op.
    Fusion{OpCode::rms_norm, OpCode::linear_silu_and_mul, OpCode::linear_silu_and_mul},
    Fusion{OpCode::rms_norm, OpCode::linear_rope_kv_write, OpCode::linear_rope_kv_write},
    Fusion{OpCode::rms_norm, OpCode::lm_head, OpCode::lm_head},
};

bool is_prologue(const Fusion& fusion) { return fusion.second == fusion.fused; }

std::optional<size_t> find_operand(OpCode op, std::string_view name) {
  const OpRule& rule = definition_of(op).rule;
  for (size_t i = 0; i < rule.operands.size; ++i) {
    if (rule.operands[i].name == name) return i;
  }
  return std::nullopt;
}

/// Returns the operand of that name; kNoValue if the operand is left out or the op has none of that
/// name.
ValueId operand_of(const Node& node, std::string_view name) {
  const std::optional<size_t> index = find_operand(node.op, name);
  return index ? node.inputs[*index] : kNoValue;
}

class LinearFuser {
 public:
  enum class Rows : uint8_t {
    as_given,
    quantised,
    quantised_inside,  // the fused op quantises them, and the op that did so is erased
  };

  LinearFuser(Program& program, const NodePredicate& has_kernel)
      : program_(program), edit_(program), has_kernel_(has_kernel) {}

  /// Applies the rows of the table that `is_wanted` accepts.
  template <typename IsWanted>
  size_t run(const IsWanted& is_wanted, Rows rows = Rows::as_given) && {
    size_t num_rewrites = 0;
    for (Node& node : program_.nodes) {
      const bool is_fused = std::ranges::any_of(kFusions, [&](const Fusion& fusion) {
        return fusion.second == node.op && is_wanted(fusion) && fuse(fusion, node, rows);
      });
      if (is_fused) ++num_rewrites;
    }
    std::move(edit_).finish();
    return num_rewrites;
  }

  /// Products quantise their rows themselves.
  size_t quantise_inside() && {
    size_t num_rewrites = 0;
    for (Node& node : program_.nodes) {
      if (node.op == OpCode::rope_kv_write) {
        num_rewrites += fuse_heads(kHeads, node, Rows::quantised_inside) ? 1 : 0;
      }
    }
    // Where a product quantises its own result for one other product, it gives elements from here
    // on, and the loop below lets the other product quantise them.
    for (Node& node : program_.nodes) num_rewrites += leave_to_user(node) ? 1 : 0;
    for (size_t i = 0; i < program_.nodes.size(); ++i) {
      Node& node = program_.nodes[i];
      if (edit_.is_erased(i) || !is_product(node.op)) continue;
      Node fused = node;
      const std::optional<size_t> quantisation = take_quantisation(fused);
      if (!quantisation || (has_kernel_ && !has_kernel_(program_, fused))) continue;
      node = std::move(fused);
      edit_.erase(*quantisation);
      ++num_rewrites;
    }
    std::move(edit_).finish();
    return num_rewrites;
  }

 private:
  static constexpr Fusion kHeads{
      OpCode::linear, OpCode::rope_kv_write, OpCode::linear_rope_kv_write};

  bool fuse(const Fusion& fusion, Node& node, Rows rows) {
    if (node.op == OpCode::rope_kv_write) return fuse_heads(fusion, node, rows);
    // For a sum, the second operand is tried first.
    for (size_t operand = node.op == OpCode::add ? 2 : 1; operand-- > 0;) {
      const std::optional<size_t> first = edit_.definition(node.inputs[operand], fusion.first);
      if (!first || edit_.num_uses(node.inputs[operand]) != 1) continue;
      if (!has_rows(program_.nodes[*first], rows)) continue;
      const ValueId other = node.op == OpCode::add ? node.inputs[1 - operand] : kNoValue;
      if (replace(fusion, node, *first, other)) return true;
    }
    return false;
  }

  // Whether the product multiplies with quantised rows, or with rows as they are. Ops without a
  // weight in a layout fit both.
  [[nodiscard]] bool has_rows(const Node& product, Rows rows) const {
    if (product.op == OpCode::rms_norm) return true;
    return asks_for_quantised_rows(product) == (rows != Rows::as_given);
  }
  [[nodiscard]] bool asks_for_quantised_rows(const Node& product) const {
    const ValueId weight = operand_of(product, "weight");
    return activation_form(program_.type(weight).layout.family) != ActivationForm::elements;
  }

  // Products that may get elements where their weight asks for quantised rows.
  static bool is_product(OpCode op) {
    constexpr std::array kProducts = {OpCode::linear,
                                      OpCode::linear_add,
                                      OpCode::linear_silu_and_mul,
                                      OpCode::linear_rope_kv_write,
                                      OpCode::lm_head};
    return std::ranges::find(kProducts, op) != kProducts.end();
  }
  // Makes a product take the rows from which its own rows were quantised, and their norm. Returns
  // the op that then has no use, or nothing, and the product is as it was.
  std::optional<size_t> take_quantisation(Node& product) const {
    const ValueId x = product.inputs[0];
    const std::optional<size_t> index = edit_.definition(x);
    if (!asks_for_quantised_rows(product) || !index || edit_.is_erased(*index)) return std::nullopt;
    const Node& before = program_.nodes[*index];
    const bool has_norm =
        before.op == OpCode::rms_norm_quantize_blocks || before.op == OpCode::rms_norm_quant;
    const bool is_plain =
        before.op == OpCode::quantize_blocks || before.op == OpCode::quantize_per_token;
    const bool is_of_this_product = std::ranges::all_of(
        before.outputs, [&](ValueId value) { return edit_.num_uses(value) == 1; });
    const std::optional<size_t> norm = find_operand(product.op, "norm");
    const ValueId scale = operand_of(product, "scale");
    if (scale != kNoValue && scale != before.outputs.back()) return std::nullopt;
    if ((!has_norm && !is_plain) || !is_of_this_product) return std::nullopt;
    if (has_norm && (!norm || !can_take_norm(product, before))) return std::nullopt;
    product.inputs[0] = before.inputs[0];
    if (const auto place = find_operand(product.op, "scale")) product.inputs[*place] = kNoValue;
    if (has_norm) {
      product.inputs[*norm] = before.inputs[1];
      product.attributes.epsilon = before.attributes.epsilon;
    }
    return index;
  }
  // linear_silu_and_mul_quantize_blocks becomes linear_silu_and_mul if only one product uses it.
  bool leave_to_user(Node& node) {
    if (node.op != OpCode::linear_silu_and_mul_quantize_blocks) return false;
    const ValueId result = node.outputs[0];
    const std::span<const size_t> users = edit_.users(result);
    if (edit_.num_uses(result) != 1 || users.size() != 1) return false;
    const Node& user = program_.nodes[users[0]];
    if (!is_product(user.op) || user.inputs[0] != result) return false;
    Node fused{
        .op = OpCode::linear_silu_and_mul, .outputs = node.outputs, .location = node.location};
    for (const OperandRule& operand : definition_of(fused.op).rule.operands) {
      fused.inputs.push_back(operand_of(node, operand.name));
    }
    if (has_kernel_ && (!has_kernel_(program_, fused) || !has_kernel_(program_, user)))
      return false;
    program::ValueType& type = program_.values[index_of(result)].type;
    const program::ValueType& weight = program_.type(operand_of(node, "weight"));
    type = {weight.dtype, {type.shape[0], weight.shape[0].constant() / 2}};
    node = std::move(fused);
    return true;
  }

  // The columns of a linear are exactly q, k and v of the node, in this order, and each of them is
  // used only once.
  bool fuse_heads(const Fusion& fusion, Node& rope, Rows rows) {
    std::optional<ValueId> product;
    int64_t column = 0;
    std::array<size_t, 6> views{};
    for (size_t operand = 0; operand < 3; ++operand) {
      const std::optional<size_t> unflatten = only_use(rope.inputs[operand], OpCode::unflatten);
      const std::optional<size_t> slice =
          unflatten ? only_use(program_.nodes[*unflatten].inputs[0], OpCode::slice) : std::nullopt;
      if (!slice) return false;
      const Node& part = program_.nodes[*slice];
      if (part.attributes.dim != 1 || part.attributes.begin != SymInt(column)) return false;
      if (product && *product != part.inputs[0]) return false;
      product = part.inputs[0];
      column += part.attributes.length.constant();
      views[2 * operand] = *unflatten;
      views[2 * operand + 1] = *slice;
    }
    const std::optional<size_t> linear = edit_.definition(*product, fusion.first);
    if (!linear || edit_.num_uses(*product) != 3) return false;
    if (program_.type(*product).shape[1] != SymInt(column)) return false;
    if (!has_rows(program_.nodes[*linear], rows)) return false;
    const SymInt heads = program_.type(rope.inputs[0]).shape[1];
    if (!replace(fusion, rope, *linear, kNoValue, heads, rows)) return false;
    for (size_t view : views) edit_.erase(view);
    return true;
  }
  [[nodiscard]] std::optional<size_t> only_use(ValueId value, OpCode op) const {
    const std::optional<size_t> node = edit_.definition(value, op);
    return node && edit_.num_uses(value) == 1 ? node : std::nullopt;
  }

  // Replaces `node` by the fused op and erases the node `first`.
  bool replace(const Fusion& fusion,
               Node& node,
               size_t first,
               ValueId residual,
               const SymInt& heads = SymInt(0),
               Rows rows = Rows::as_given) {
    const Node& before = program_.nodes[first];
    Node fused = is_prologue(fusion) ? with_norm(before, node)
                                     : with_epilogue(fusion.fused, before, node, residual);
    if (is_prologue(fusion) && !can_take_norm(node, before)) return false;
    if (fusion.fused == OpCode::linear_rope_kv_write && !is_prologue(fusion)) {
      fused.attributes.length = heads;
    }
    std::optional<size_t> quantisation;
    if (rows == Rows::quantised_inside) {
      quantisation = take_quantisation(fused);
      if (!quantisation) return false;
    }
    const bool loses = !quantisation && loses_operand(before, fused);
    if (loses || (has_kernel_ && !has_kernel_(program_, fused))) return false;
    node = std::move(fused);
    edit_.erase(first);
    if (quantisation) edit_.erase(*quantisation);
    return true;
  }

  // Returns a product with the operands of `product` and, by their names, the operands of the op
  // after it.
  static Node with_epilogue(OpCode op, const Node& product, const Node& after, ValueId residual) {
    Node fused{.op = op, .outputs = after.outputs, .location = product.location};
    for (const OperandRule& operand : definition_of(op).rule.operands) {
      const bool is_of_product = find_operand(product.op, operand.name).has_value();
      fused.inputs.push_back(operand.name == "residual"
                                 ? residual
                                 : operand_of(is_of_product ? product : after, operand.name));
    }
    for (Attribute attribute : program::attributes_of(op)) {
      const auto of_product = program::attributes_of(product.op);
      const bool is_of_product = std::ranges::find(of_product, attribute) != of_product.end();
      program::visit_member_of(attribute, [&](auto member) {
        fused.attributes.*member = (is_of_product ? product : after).attributes.*member;
      });
    }
    return fused;
  }

  static Node with_norm(const Node& norm, const Node& product) {
    Node fused = product;
    fused.attributes.epsilon = norm.attributes.epsilon;
    fused.inputs[0] = norm.inputs[0];
    fused.inputs[*find_operand(product.op, "norm")] = norm.inputs[1];
    return fused;
  }
  // An op has only one norm of its rows. All norms of an op have the same epsilon, which the norms
  // of heads may already determine.
  static bool can_take_norm(const Node& product, const Node& norm) {
    return operand_of(product, "norm") == kNoValue &&
           (operand_of(product, "q_norm") == kNoValue ||
            product.attributes.epsilon == norm.attributes.epsilon);
  }

  // Whether the first op has an operand that the fused op does not have, such as the norm before a
  // product whose result is quantised.
  static bool loses_operand(const Node& first, const Node& fused) {
    const OpRule& rule = definition_of(first.op).rule;
    for (size_t i = 0; i < first.inputs.size(); ++i) {
      if (first.inputs[i] != kNoValue && !find_operand(fused.op, rule.operands[i].name)) {
        return true;
      }
    }
    return false;
  }

  Program& program_;
  ProgramEdit edit_;
  const NodePredicate& has_kernel_;
};

size_t fuse_into(Program& program, const NodePredicate& has_kernel, OpCode fused) {
  return LinearFuser(program, has_kernel).run([&](const Fusion& fusion) {
    return fusion.fused == fused && !is_prologue(fusion);
  });
}

}  // namespace

size_t fuse_block_linear(Program& program, const NodePredicate& has_kernel) {
  const auto is_wanted = [](const Fusion& fusion) {
    return !is_prologue(fusion) && fusion.fused != OpCode::linear_rope_kv_write;
  };
  return LinearFuser(program, has_kernel).run(is_wanted, LinearFuser::Rows::quantised);
}

size_t fuse_quantize_linear(Program& program, const NodePredicate& has_kernel) {
  return LinearFuser(program, has_kernel).quantise_inside();
}

size_t fuse_linear_add(Program& program, const NodePredicate& has_kernel) {
  return fuse_into(program, has_kernel, OpCode::linear_add);
}

size_t fuse_linear_silu_and_mul(Program& program, const NodePredicate& has_kernel) {
  return fuse_into(program, has_kernel, OpCode::linear_silu_and_mul);
}

size_t fuse_linear_rope_kv_write(Program& program, const NodePredicate& has_kernel) {
  return fuse_into(program, has_kernel, OpCode::linear_rope_kv_write);
}

size_t fuse_rms_norm_linear(Program& program, const NodePredicate& has_kernel) {
  return LinearFuser(program, has_kernel).run(is_prologue);
}

}  // namespace reprise::compile
