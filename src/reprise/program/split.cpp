#include "reprise/program/split.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <ranges>
#include <set>
#include <string_view>
#include <utility>

#include "reprise/base/error.h"
#include "reprise/base/nearest_name.h"
#include "reprise/program/text.h"
#include "reprise/tensor/custom_op.h"
#include "reprise/tensor/view.h"

namespace reprise::program {
namespace {

// The nodes of one piece, except views: each piece makes the views that it needs.
struct Group {
  bool is_splitting = false;
  std::vector<size_t> nodes;
};

std::vector<Group> group_nodes(const Program& program, const SplittingOps& splitting_ops) {
  std::vector<Group> groups;
  for (size_t i = 0; i < program.nodes.size(); ++i) {
    const OpCode op = program.nodes[i].op;
    if (is_view(op)) continue;
    const bool is_splitting = splitting_ops.contains(program.nodes[i]);
    if (groups.empty() || groups.back().is_splitting != is_splitting) {
      groups.push_back({.is_splitting = is_splitting});
    }
    groups.back().nodes.push_back(i);
  }
  if (groups.empty()) groups.emplace_back();
  return groups;
}

// A graph that holds only allocations would record no work. So a group with only `empty` ops is
// merged into the last capturable group.
std::vector<Group> merge_allocations(const Program& program, std::vector<Group> groups) {
  std::vector<Group> merged;
  for (Group& group : groups) {
    const bool only_allocates =
        !group.is_splitting && !group.nodes.empty() &&
        std::all_of(group.nodes.begin(), group.nodes.end(), [&](size_t node) {
          return program.nodes[node].op == OpCode::empty;
        });
    const auto previous = std::find_if(
        merged.rbegin(), merged.rend(), [](const Group& other) { return !other.is_splitting; });
    if (only_allocates && previous != merged.rend()) {
      previous->nodes.insert(previous->nodes.end(), group.nodes.begin(), group.nodes.end());
    } else {
      merged.push_back(std::move(group));
    }
  }
  return merged;
}

// Builds one piece out of nodes of the whole program.
class PieceBuilder {
 public:
  PieceBuilder(const Program& whole, std::span<const size_t> producers, const Group& group)
      : whole_(whole), producers_(producers) {
    piece_.is_splitting = group.is_splitting;
    for (size_t index : group.nodes) add_node(whole.nodes[index]);
  }

  /// The piece's value for a value of the whole program. If that value is a view, the piece makes
  /// the view itself. If another piece computes the value, it becomes an input of this piece.
  ValueId local(ValueId id) {
    if (id == kNoValue) return kNoValue;
    if (const auto found = local_.find(id); found != local_.end()) return found->second;
    if (whole_.value(id).state) return local_state(id);
    if (is_result_of_view(id)) {
      add_views(id);
      return local_.at(id);
    }
    const auto slot = std::find(whole_.parameters.begin(), whole_.parameters.end(), id);
    if (slot != whole_.parameters.end()) {
      piece_.parameters.push_back(static_cast<size_t>(slot - whole_.parameters.begin()));
      return local_[id] = program_.add_parameter(whole_.type(id));
    }
    inputs_.push_back(id);
    return local_[id] =
               program_.add_input(fmt::format("in{}", program_.inputs.size()), whole_.type(id));
  }

  void add_output(ValueId id) {
    program_.outputs.push_back(local(id));
    outputs_.push_back(id);
  }
  /// Three lists of ids in the whole program: the values that the piece reads, returns and
  /// computes.
  [[nodiscard]] const std::vector<ValueId>& inputs() const noexcept { return inputs_; }
  [[nodiscard]] const std::vector<ValueId>& outputs() const noexcept { return outputs_; }
  [[nodiscard]] const std::vector<ValueId>& defined() const noexcept { return defined_; }

  [[nodiscard]] Piece& piece() noexcept { return piece_; }
  [[nodiscard]] Program& program() noexcept { return program_; }

 private:
  [[nodiscard]] bool is_result_of_view(ValueId id) const {
    const size_t producer = producers_[index_of(id)];
    return producer < whole_.nodes.size() && is_view(whole_.nodes[producer].op);
  }
  // Adds the views from which `id` is made, the first one first. Uses a loop, because a parsed
  // program may have a chain of views of any length, and recursion could exhaust the stack.
  void add_views(ValueId id) {
    std::vector<size_t> chain;
    while (is_result_of_view(id) && !local_.contains(id)) {
      chain.push_back(producers_[index_of(id)]);
      id = whole_.nodes[chain.back()].inputs[0];
    }
    for (const size_t view : std::views::reverse(chain)) add_node(whole_.nodes[view]);
  }
  // Adds the state as a slot of the piece. In a run, the slot holds the version that the previous
  // pieces wrote.
  ValueId local_state(ValueId id) {
    const size_t whole_slot = *whole_.value(id).state;
    piece_.states.push_back(whole_slot);
    return local_[id] = program_.add_state(whole_.type(id));
  }

  // Copies the group into the piece's program, once for each group that the piece uses.
  uint32_t local_group(uint32_t whole_group) {
    const auto [found, is_new] =
        groups_.emplace(whole_group, static_cast<uint32_t>(program_.groups.size()));
    if (is_new) program_.groups.push_back(whole_.groups[whole_group]);
    return found->second;
  }
  void add_node(const Node& from) {
    Node node = from;
    if (node.op == OpCode::row_group) node.attributes.group = local_group(from.attributes.group);
    const OpSignature signature = signature_of(whole_, from);
    for (size_t i = 0; i < from.inputs.size(); ++i) {
      const size_t num_inputs = inputs_.size();
      node.inputs[i] = local(from.inputs[i]);
      const bool is_new_input = inputs_.size() > num_inputs && inputs_.back() == from.inputs[i];
      if (signature.out_buffer == i && is_new_input) program_.inputs.back().is_buffer = true;
    }
    for (size_t i = 0; i < from.outputs.size(); ++i) {
      const ValueId id = from.outputs[i];
      const bool is_next_version = whole_.value(id).state.has_value();
      node.outputs[i] =
          is_next_version
              ? program_.add_next_version(node.inputs[signature.states[i - signature.num_results]])
              : program_.add_value(whole_.type(id));
      local_[id] = node.outputs[i];
      if (!is_next_version && !is_view(from.op)) defined_.push_back(id);
    }
    program_.nodes.push_back(std::move(node));
  }

  const Program& whole_;
  // For each value of the whole program, the node that makes it.
  std::span<const size_t> producers_;
  Program program_;
  Piece piece_;
  std::map<ValueId, ValueId> local_;
  std::map<uint32_t, uint32_t> groups_;
  std::vector<ValueId> inputs_;
  std::vector<ValueId> outputs_;
  std::vector<ValueId> defined_;  // results that other pieces may use, in order
};

std::vector<size_t> producers_of(const Program& program) {
  std::vector<size_t> producers(program.values.size(), program.nodes.size());
  for (size_t i = 0; i < program.nodes.size(); ++i) {
    for (ValueId id : program.nodes[i].outputs) producers[index_of(id)] = i;
  }
  return producers;
}

// Declares the outputs of each piece: the values that later pieces or the caller need. The last
// piece makes the views that the caller gets, because all their sources exist by then.
void add_outputs(const Program& whole,
                 std::span<const size_t> producers,
                 std::vector<PieceBuilder>& builders) {
  std::set<ValueId> needed;
  std::set<ValueId> returned_views;
  for (ValueId id : whole.outputs) {
    const size_t producer = producers[index_of(id)];
    if (producer < whole.nodes.size() && is_view(whole.nodes[producer].op)) {
      if (returned_views.insert(id).second) builders.back().add_output(id);
    } else {
      needed.insert(id);
    }
  }
  for (const PieceBuilder& builder : builders) {
    needed.insert(builder.inputs().begin(), builder.inputs().end());
  }
  for (PieceBuilder& builder : builders) {
    for (ValueId id : builder.defined()) {
      if (needed.contains(id)) builder.add_output(id);
    }
  }
}

// Assigns numbers to the boundary values.
class Boundary {
 public:
  explicit Boundary(const Program& whole) {
    for (const ProgramInput& input : whole.inputs) add(input.value);
  }
  void add(ValueId id) { numbers_.emplace(id, numbers_.size()); }
  [[nodiscard]] std::vector<size_t> numbers(const std::vector<ValueId>& ids) const {
    std::vector<size_t> found;
    for (ValueId id : ids) found.push_back(numbers_.at(id));
    return found;
  }
  [[nodiscard]] size_t size() const noexcept { return numbers_.size(); }

 private:
  std::map<ValueId, size_t> numbers_;
};

void find_dead_values(const Program& whole, SplitProgram& split) {
  std::set<size_t> seen(split.outputs.begin(), split.outputs.end());
  for (size_t input = 0; input < whole.inputs.size(); ++input) seen.insert(input);
  for (auto& piece : std::views::reverse(split.pieces)) {
    for (const std::vector<size_t>* touched : {&piece.inputs, &piece.outputs}) {
      for (size_t value : *touched) {
        if (seen.insert(value).second) piece.dead.push_back(value);
      }
    }
  }
}

// ATOM's names of its attention ops, and vLLM's names of the same ops.
constexpr std::array<std::pair<std::string_view, std::string_view>, 2> kAtomNames = {{
    {"aiter::unified_attention_with_output", "vllm::unified_attention_with_output"},
    {"aiter::mla_attention", "vllm::unified_mla_attention_with_output"},
}};

/// vLLM's name of an op that ATOM names, or the name itself. "aiter.op" and "aiter::op" are the
/// same.
std::string vllm_name_of(std::string_view name) {
  std::string written(name);
  if (written.starts_with("aiter.")) written.replace(0, 6, "aiter::");
  for (const auto& [atom_name, vllm_name] : kAtomNames) {
    if (written == atom_name) return std::string(vllm_name);
  }
  return std::string(name);
}

}  // namespace

bool SplittingOps::contains(const Node& node) const {
  if (node.op == OpCode::custom) {
    return std::find(custom.begin(), custom.end(), node.attributes.custom) != custom.end();
  }
  const OpCode op = definition_of(node.op).properties.splits_as.value_or(node.op);
  return std::find(codes.begin(), codes.end(), op) != codes.end();
}

SplittingOps parse_splitting_ops(std::span<const std::string> splitting_ops,
                                 std::span<const CustomOp* const> custom_ops) {
  constexpr std::string_view kDefaultOverload = ".default";
  SplittingOps found;
  for (const std::string& entry : splitting_ops) {
    std::string_view given = entry;
    if (given.ends_with(kDefaultOverload)) given.remove_suffix(kDefaultOverload.size());
    const std::string name = vllm_name_of(given);
    std::optional<OpCode> op = parse_op_name(name);
    for (OpCode other : all_ops()) {
      const std::string_view vllm_name = definition_of(other).properties.vllm_name;
      if (!vllm_name.empty() && vllm_name == name) op = other;
    }
    if (op && is_view(*op)) {
      throw InvalidArgument(
          fmt::format("splitting_ops: '{}' is a view, which does no work to split off", entry));
    }
    const auto custom = std::find_if(custom_ops.begin(),
                                     custom_ops.end(),
                                     [&](const CustomOp* other) { return other->name == name; });
    if (op == OpCode::row_group || op == OpCode::custom) op.reset();
    if (op) {
      found.codes.push_back(definition_of(*op).properties.splits_as.value_or(*op));
    } else if (custom != custom_ops.end()) {
      found.custom.push_back(*custom);
    } else if (name.find("::") == std::string::npos) {
      std::vector<std::string_view> known;
      for (OpCode other : all_ops()) {
        if (!is_view(other)) known.push_back(op_name(other));
      }
      throw InvalidArgument(
          fmt::format("splitting_ops: no op is called '{}'{}; give an op's own name (attention, "
                      "kv_write) or vLLM's (vllm::unified_attention_with_output)",
                      entry,
                      did_you_mean(name, known)));
    }
  }
  return found;
}

size_t SplitProgram::num_capturable_pieces() const noexcept {
  return static_cast<size_t>(std::count_if(
      pieces.begin(), pieces.end(), [](const Piece& piece) { return !piece.is_splitting; }));
}

size_t SplitProgram::num_unique_capturable_pieces() const {
  std::set<size_t> unique;
  for (const Piece& piece : pieces) {
    if (!piece.is_splitting) unique.insert(piece.program);
  }
  return unique.size();
}

SplitProgram split(const Program& program, const SplittingOps& splitting_ops) {
  const std::vector<size_t> producers = producers_of(program);
  std::vector<PieceBuilder> builders;
  for (const Group& group : merge_allocations(program, group_nodes(program, splitting_ops))) {
    builders.emplace_back(program, producers, group);
  }
  add_outputs(program, producers, builders);

  SplitProgram result;
  Boundary boundary(program);
  std::map<std::string, size_t> unique;
  for (PieceBuilder& builder : builders) {
    for (ValueId id : builder.outputs()) boundary.add(id);
    Piece& piece = builder.piece();
    piece.inputs = boundary.numbers(builder.inputs());
    piece.outputs = boundary.numbers(builder.outputs());
    const auto [found, is_new] =
        unique.emplace(canonical_text(builder.program()), result.programs.size());
    piece.program = found->second;
    if (is_new) result.programs.push_back(std::move(builder.program()));
    result.pieces.push_back(std::move(piece));
  }
  result.num_boundary_values = boundary.size();
  result.outputs = boundary.numbers(program.outputs);
  find_dead_values(program, result);
  return result;
}

SplitInterpreter::SplitInterpreter(const SplitProgram& program) : program_(&program) {
  for (const Program& unique : program.programs) interpreters_.emplace_back(unique);
}

std::vector<Tensor> SplitInterpreter::run(std::span<const Tensor> inputs,
                                          const SlotTensors& slots,
                                          const SymbolValues& values,
                                          OpExecutor& executor) {
  const auto pick = [](std::span<const Tensor> from, std::span<const size_t> indices) {
    std::vector<Tensor> picked;
    for (size_t index : indices) picked.push_back(from[index]);
    return picked;
  };
  std::vector<Tensor> boundary(inputs.begin(), inputs.end());
  boundary.resize(program_->num_boundary_values);
  for (const Piece& piece : program_->pieces) {
    const SlotTensors own{.parameters = pick(slots.parameters, piece.parameters),
                          .states = pick(slots.states, piece.states)};
    std::vector<Tensor> outputs =
        interpreters_[piece.program].run(pick(boundary, piece.inputs), own, values, executor);
    for (size_t i = 0; i < outputs.size(); ++i) boundary[piece.outputs[i]] = std::move(outputs[i]);
    for (size_t value : piece.dead) boundary[value] = Tensor{};
  }
  return pick(boundary, program_->outputs);
}

}  // namespace reprise::program
