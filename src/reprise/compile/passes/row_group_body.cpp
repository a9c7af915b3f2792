#include "reprise/compile/passes/row_group_body.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "reprise/tensor/op_table.h"
#include "reprise/tensor/view.h"

namespace reprise::compile {
namespace {

using program::kNoValue;
using program::Node;
using program::Program;
using program::SymInt;
using program::SymShape;
using program::ValueId;

// Equal to kernels::kMaxRowGroupOperands: so many operands and results fit into the arguments of
// one launch.
constexpr size_t kMaxOperandsAndResults = 15;
constexpr size_t kMaxResults = kMaxOpOutputs;
// Larger groups save little more and take long to compile. Inductor has the same limit.
constexpr size_t kMaxNodes = 64;

bool keeps_rows(const Node& view) { return view.op != OpCode::slice || view.attributes.dim != 0; }

// Whether the number of rows depends on the batch and the size of a row is constant.
bool has_open_rows(const SymShape& shape) {
  if (shape.rank() == 0 || shape[0].is_constant()) return false;
  return std::all_of(shape.sizes().begin() + 1, shape.sizes().end(), [](const SymInt& size) {
    return size.is_constant();
  });
}

}  // namespace

RowFlow::RowFlow(const Program& program)
    : program_(program),
      definition_(program.values.size()),
      users_(program.values.size()),
      is_returned_(program.values.size()),
      can_be_member_(program.nodes.size()),
      rows_read_(program.nodes.size()),
      before_(program.nodes.size()),
      after_(program.nodes.size()) {
  for (size_t i = 0; i < program.nodes.size(); ++i) {
    for (ValueId id : program.nodes[i].outputs) definition_[index_of(id)] = i;
  }
  for (size_t i = 0; i < program.nodes.size(); ++i) {
    if (!is_view(i)) add_node(i);
  }
  for (ValueId id : program.outputs) is_returned_[index_of(root(id))] = true;
  for (size_t i = 0; i < program.nodes.size(); ++i) {
    const Node& node = program.nodes[i];
    can_be_member_[i] =
        definition_of(node.op).properties.is_row_wise && !is_view(i) &&
        std::ranges::all_of(
            node.inputs,
            [&](ValueId id) { return id == kNoValue || program.type(id).layout.is_rows(); }) &&
        std::all_of(node.outputs.begin(),
                    node.outputs.end(),
                    [&](ValueId id) { return has_open_rows(program.type(id).shape); }) &&
        std::any_of(node.outputs.begin(), node.outputs.end(), [&](ValueId id) {
          return is_returned_[index_of(id)] || !users_[index_of(id)].empty();
        });
  }
  for (size_t i = 0; i < program.nodes.size(); ++i) {
    if (!can_be_member_[i]) continue;
    const Node& node = program.nodes[i];
    for (size_t operand = 0; operand < node.inputs.size(); ++operand) {
      if (node.inputs[operand] == kNoValue || !reads_rows(node.op, operand)) continue;
      const ValueId rows = rows_behind(node.inputs[operand]);
      rows_read_[i].push_back(rows);
      row_readers_[rows].push_back(i);
    }
  }
}

void RowFlow::add_node(size_t node) {
  for (ValueId id : program_.nodes[node].inputs) {
    if (id == kNoValue) continue;
    const ValueId read = root(id);
    users_[index_of(read)].push_back(node);
    const std::optional<size_t> maker = definition_[index_of(read)];
    if (!maker) continue;
    before_[node].push_back(*maker);
    after_[*maker].push_back(node);
  }
}

bool RowFlow::is_view(size_t node) const { return reprise::is_view(program_.nodes[node].op); }

std::optional<size_t> RowFlow::view(ValueId value) const {
  const std::optional<size_t> node = definition(value);
  return node && is_view(*node) ? node : std::nullopt;
}

ValueId RowFlow::root(ValueId value) const {
  while (const std::optional<size_t> node = view(value)) value = program_.nodes[*node].inputs[0];
  return value;
}

ValueId RowFlow::rows_behind(ValueId value) const {
  for (std::optional<size_t> node = view(value); node && keeps_rows(program_.nodes[*node]);
       node = view(value)) {
    value = program_.nodes[*node].inputs[0];
  }
  return value;
}

bool RowFlow::reads_rows(OpCode op, size_t operand) {
  const OpRule& rule = definition_of(op).rule;
  const TypeRule& read = rule.operands[operand].type;
  const TypeRule& result = rule.results[0].type;
  if (read.has_leading_sizes || result.has_leading_sizes) return read.has_leading_sizes;
  return read.rank > 0 && read.sizes[0] == result.sizes[0];
}

std::vector<ValueId> RowFlow::results_of(std::span<const size_t> nodes) const {
  std::vector<ValueId> results;
  for (size_t node : nodes) {
    for (ValueId id : program_.nodes[node].outputs) {
      const std::vector<size_t>& users = users_[index_of(id)];
      const bool is_used_outside = std::any_of(users.begin(), users.end(), [&](size_t user) {
        return !std::binary_search(nodes.begin(), nodes.end(), user);
      });
      if (is_used_outside || is_returned_[index_of(id)]) results.push_back(id);
    }
  }
  return results;
}

bool RowFlow::have_equal_rows(std::span<const size_t> nodes) const {
  const auto rows_of = [&](size_t node) {
    return program_.type(program_.nodes[node].outputs[0]).shape[0];
  };
  return std::all_of(
      nodes.begin(), nodes.end(), [&](size_t node) { return rows_of(node) == rows_of(nodes[0]); });
}

int64_t RowFlow::row_bytes(ValueId value) const {
  const program::ValueType& type = program_.type(value);
  if (type.shape.rank() < 2) return 0;
  auto bytes = static_cast<int64_t>(dtype_bytes(type.dtype));
  for (int dim = 1; dim < type.shape.rank(); ++dim) bytes *= type.shape[dim].constant();
  return bytes;
}

namespace {

class BodyBuilder {
 public:
  BodyBuilder(const RowFlow& flow, std::span<const size_t> nodes) : flow_(flow), nodes_(nodes) {}

  std::optional<RowGroupBody> build() && {
    for (size_t node : nodes_) {
      if (!add_node(flow_.program().nodes[node])) return std::nullopt;
    }
    body_.outputs = flow_.results_of(nodes_);
    for (ValueId id : body_.outputs) body_.program.outputs.push_back(inner_.at(id));
    return has_operand_with_rows() ? std::optional(std::move(body_)) : std::nullopt;
  }

 private:
  bool add_node(const Node& node) {
    Node copy{.op = node.op, .attributes = node.attributes};
    for (size_t operand = 0; operand < node.inputs.size(); ++operand) {
      const ValueId id = node.inputs[operand];
      if (id == kNoValue) {
        copy.inputs.push_back(kNoValue);
        continue;
      }
      const std::optional<ValueId> inner =
          RowFlow::reads_rows(node.op, operand) ? inner_rows(id) : inner_table(id);
      if (!inner) return false;
      copy.inputs.push_back(*inner);
    }
    for (ValueId id : node.outputs) {
      copy.outputs.push_back(inner_[id] = body_.program.add_value(flow_.program().type(id)));
    }
    body_.program.nodes.push_back(std::move(copy));
    return true;
  }

  // The value in the body for a value whose rows the group reads: a result of the group, a value
  // from outside, or a view of one of them.
  std::optional<ValueId> inner_rows(ValueId id) {
    if (const auto known = inner_.find(id); known != inner_.end()) return known->second;
    const std::optional<size_t> view = flow_.view(id);
    if (!view || !keeps_rows(flow_.program().nodes[*view])) return inner_table(id);
    const Node& node = flow_.program().nodes[*view];
    const std::optional<ValueId> shown = inner_rows(node.inputs[0]);
    if (!shown) return std::nullopt;
    const ValueId result = body_.program.add_value(flow_.program().type(id));
    body_.program.nodes.push_back({node.op, node.attributes, {*shown}, {result}, {}});
    return inner_[id] = result;
  }

  // The value in the body for a table or weight from outside the group. nullopt if a node of the
  // group computes a part of it.
  std::optional<ValueId> inner_table(ValueId id) {
    for (ValueId part = id;;) {
      const std::optional<size_t> maker = flow_.definition(part);
      if (!maker) break;
      if (std::binary_search(nodes_.begin(), nodes_.end(), *maker)) return std::nullopt;
      if (!flow_.is_view(*maker)) break;
      part = flow_.program().nodes[*maker].inputs[0];
    }
    if (const auto known = input_.find(id); known != input_.end()) return known->second;
    body_.inputs.push_back(id);
    return input_[id] = body_.program.add_input(fmt::format("x{}", body_.inputs.size() - 1),
                                                flow_.program().type(id));
  }

  [[nodiscard]] bool has_operand_with_rows() const {
    const SymInt rows = flow_.program().type(body_.outputs.at(0)).shape[0];
    return std::any_of(body_.inputs.begin(), body_.inputs.end(), [&](ValueId id) {
      const SymShape& shape = flow_.program().type(id).shape;
      return shape.rank() > 0 && shape[0] == rows;
    });
  }

  const RowFlow& flow_;
  std::span<const size_t> nodes_;
  RowGroupBody body_;
  // For results and views: the program's value -> the body's value.
  std::map<ValueId, ValueId> inner_;
  // For values from outside the group: the program's value -> the body's value.
  std::map<ValueId, ValueId> input_;
};

}  // namespace

std::optional<RowGroupBody> make_body(const RowFlow& flow, std::span<const size_t> nodes) {
  return BodyBuilder(flow, nodes).build();
}

bool is_within_limits(const RowGroupBody& body) {
  return body.inputs.size() + body.outputs.size() <= kMaxOperandsAndResults &&
         body.outputs.size() <= kMaxResults && body.program.nodes.size() <= kMaxNodes;
}

}  // namespace reprise::compile
