#include "reprise/compile/passes/parallelize_sequence.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "reprise/compile/passes/program_edit.h"

namespace reprise::compile {
namespace {

using program::Node;
using program::Program;
using program::SymInt;
using program::ValueId;
using program::ValueType;

class SequenceParallelizer {
 public:
  SequenceParallelizer(Program& program, std::optional<int64_t> rank)
      : program_(program), edit_(program), rank_(rank) {}

  size_t run() && {
    size_t num_rewrites = 0;
    for (size_t i = 0; i < program_.nodes.size(); ++i) {
      const OpCode op = program_.nodes[i].op;
      const bool is_scattered = (op == OpCode::rms_norm && scatter_norm(i)) ||
                                (op == OpCode::fused_add_rms_norm && scatter_sum(i));
      num_rewrites += is_scattered ? 1 : 0;
    }
    for (const Sum& sum : sums_) gather_if_used(sum);
    std::move(edit_).finish();
    return num_rewrites;
  }

 private:
  // A value of which each rank had all rows and now has only its own rows.
  struct Sum {
    ValueId whole{};
    ValueId part{};
    size_t node = 0;  // the node that computes the rank's own rows
    int64_t ranks = 0;
  };

  bool scatter_norm(size_t index) {
    const Node& norm = program_.nodes[index];
    // Another norm of this sum was changed already.
    if (scattered_.contains(norm.inputs[0])) return false;
    const std::optional<size_t> reduce = divisible_all_reduce(norm.inputs[0]);
    if (!reduce) return false;
    scatter(*reduce);
    scatter_outputs(index, program_.nodes[*reduce].attributes.ranks);
    return true;
  }

  bool scatter_sum(size_t index) {
    const Node& norm = program_.nodes[index];
    for (size_t operand : {size_t{0}, size_t{1}}) {
      const std::optional<size_t> reduce = divisible_all_reduce(norm.inputs[operand]);
      if (!reduce || edit_.num_uses(norm.inputs[operand]) != 1) continue;
      const int64_t ranks = program_.nodes[*reduce].attributes.ranks;
      if (!divide_residual(index, 1 - operand, ranks)) continue;
      scatter(*reduce);
      scatter_outputs(index, ranks);
      return true;
    }
    return false;
  }

  // Whether the residual is scattered among this number of ranks, or could be scattered: if no
  // all-reduce made a value (for example the embedding), every rank has all of its rows and can
  // take its own rows.
  bool divide_residual(size_t index, size_t operand, int64_t ranks) {
    Node& norm = program_.nodes[index];
    const ValueId residual = norm.inputs[operand];
    if (const auto found = scattered_.find(residual); found != scattered_.end()) {
      return sums_[found->second].ranks == ranks;
    }
    if (!rank_ || *rank_ >= ranks) return false;
    const ValueType part_type = part_of(program_.type(residual), ranks);
    const SymInt& rows = part_type.shape[0];
    const ValueId part = edit_.add_value(part_type);
    edit_.insert_before(
        index,
        {.op = OpCode::slice,
         .attributes = {.dim = 0,
                        .begin = SymInt(
                            rows.symbol(), *rank_ * rows.coefficient(), *rank_ * rows.constant()),
                        .length = rows},
         .inputs = {residual},
         .outputs = {part},
         .location = norm.location});
    norm.inputs[operand] = part;
    return true;
  }

  [[nodiscard]] std::optional<size_t> divisible_all_reduce(ValueId value) const {
    const std::optional<size_t> node = edit_.definition(value, OpCode::all_reduce);
    if (!node || program_.type(value).shape.rank() != 2) return std::nullopt;
    const int64_t ranks = program_.nodes[*node].attributes.ranks;
    const SymInt& rows = program_.type(value).shape[0];
    const bool is_divisible = rows.constant() % ranks == 0 && rows.coefficient() % ranks == 0;
    return is_divisible ? node : std::nullopt;
  }

  void scatter(size_t index) {
    Node& node = program_.nodes[index];
    node.op = OpCode::reduce_scatter;
    node.outputs[0] = add_sum(node.outputs[0], index, node.attributes.ranks);
  }
  // Makes the norm read and compute only the rank's own rows: replaces its operands by their parts.
  void scatter_outputs(size_t index, int64_t ranks) {
    Node& norm = program_.nodes[index];
    for (ValueId& id : norm.inputs) {
      const auto found = scattered_.find(id);
      if (found == scattered_.end()) continue;
      on_parts_.emplace(index, id);
      id = sums_[found->second].part;
    }
    for (ValueId& id : norm.outputs) id = add_sum(id, index, ranks);
  }
  ValueId add_sum(ValueId whole, size_t node, int64_t ranks) {
    const ValueId part = edit_.add_value(part_of(program_.type(whole), ranks));
    scattered_.emplace(whole, sums_.size());
    sums_.push_back({whole, part, node, ranks});
    return part;
  }
  static ValueType part_of(const ValueType& whole, int64_t ranks) {
    const SymInt& rows = whole.shape[0];
    const SymInt part(rows.symbol(), rows.coefficient() / ranks, rows.constant() / ranks);
    return {whole.dtype, {part, whole.shape[1]}};
  }

  void gather_if_used(const Sum& sum) {
    const std::span<const size_t> users = edit_.users(sum.whole);
    const bool is_read = std::any_of(users.begin(), users.end(), [&](size_t user) {
      return !on_parts_.contains({user, sum.whole});
    });
    if (!is_read && !edit_.is_returned(sum.whole)) return;
    edit_.insert_before(sum.node + 1,
                        {.op = OpCode::all_gather,
                         .attributes = {.ranks = sum.ranks},
                         .inputs = {sum.part},
                         .outputs = {sum.whole},
                         .location = program_.nodes[sum.node].location});
  }

  Program& program_;
  ProgramEdit edit_;
  std::optional<int64_t> rank_;
  std::vector<Sum> sums_;
  std::map<ValueId, size_t> scattered_;  // whole value -> position in sums_
  // Uses that read the rank's own rows instead of the whole value.
  std::set<std::pair<size_t, ValueId>> on_parts_;
};

}  // namespace

size_t parallelize_sequence(Program& program, std::optional<int64_t> rank) {
  return SequenceParallelizer(program, rank).run();
}

}  // namespace reprise::compile
