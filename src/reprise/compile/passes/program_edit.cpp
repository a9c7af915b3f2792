#include "reprise/compile/passes/program_edit.h"

#include <algorithm>
#include <utility>

namespace reprise::compile {

using program::kNoValue;
using program::Node;
using program::Program;
using program::ProgramInput;
using program::Value;
using program::ValueId;

ProgramEdit::ProgramEdit(Program& program)
    : program_(&program),
      definition_(program.values.size()),
      users_(program.values.size()),
      num_uses_(program.values.size()),
      is_erased_(program.nodes.size()) {
  for (size_t i = 0; i < program.values.size(); ++i) {
    replaced_by_.push_back(ValueId{static_cast<uint32_t>(i)});
  }
  const auto use = [this](ValueId id) {
    if (id != kNoValue) ++num_uses_[index_of(id)];
  };
  for (size_t i = 0; i < program.nodes.size(); ++i) {
    for (ValueId id : program.nodes[i].outputs) definition_[index_of(id)] = i;
    for (ValueId id : program.nodes[i].inputs) {
      use(id);
      if (id != kNoValue) users_[index_of(id)].push_back(i);
    }
  }
  std::for_each(program.outputs.begin(), program.outputs.end(), use);
  std::for_each(program.final_states.begin(), program.final_states.end(), use);
}

Node& ProgramEdit::visit(size_t node) {
  Node& visited = program_->nodes[node];
  for (ValueId& id : visited.inputs) id = current(id);
  return visited;
}

void ProgramEdit::replace(ValueId value, ValueId by) {
  REPRISE_ASSERT(current(by) == by, "value {} has been replaced", index_of(by));
  replaced_by_[index_of(value)] = by;
}

ValueId ProgramEdit::add_value(const program::ValueType& type) {
  const ValueId id = program_->add_value(type);
  replaced_by_.push_back(id);
  definition_.emplace_back();
  users_.emplace_back();
  num_uses_.push_back(0);
  return id;
}

void ProgramEdit::insert_before(size_t node, Node inserted) {
  inserted_.emplace_back(node, std::move(inserted));
}

std::optional<size_t> ProgramEdit::definition(ValueId value) const {
  return value == kNoValue ? std::nullopt : definition_[index_of(value)];
}

std::optional<size_t> ProgramEdit::definition(ValueId value, OpCode op) const {
  const std::optional<size_t> node = definition(value);
  return node && program_->nodes[*node].op == op && !is_erased_[*node] ? node : std::nullopt;
}

std::span<const size_t> ProgramEdit::users(ValueId value) const { return users_[index_of(value)]; }

bool ProgramEdit::is_returned(ValueId value) const {
  const auto& outputs = program_->outputs;
  return std::any_of(
      outputs.begin(), outputs.end(), [&](ValueId id) { return current(id) == value; });
}

// Follow the chain of replacements: a replacement may have been replaced later.
ValueId ProgramEdit::current(ValueId value) const {
  while (value != kNoValue && replaced_by_[index_of(value)] != value) {
    value = replaced_by_[index_of(value)];
  }
  return value;
}

void ProgramEdit::finish() && {
  std::stable_sort(inserted_.begin(), inserted_.end(), [](const auto& a, const auto& b) {
    return a.first < b.first;
  });
  std::vector<Node> nodes;
  auto next = inserted_.begin();
  for (size_t i = 0; i <= program_->nodes.size(); ++i) {
    for (; next != inserted_.end() && next->first == i; ++next) {
      for (ValueId& id : next->second.inputs) id = current(id);
      nodes.push_back(std::move(next->second));
    }
    if (i < program_->nodes.size() && !is_erased_[i]) nodes.push_back(std::move(visit(i)));
  }
  program_->nodes = std::move(nodes);
  for (ValueId& id : program_->outputs) id = current(id);
  for (ValueId& id : program_->final_states) id = current(id);

  std::vector<ValueId> renumbered(program_->values.size(), kNoValue);
  std::vector<Value> values;
  const auto keep = [&](ValueId& id) {
    values.push_back(program_->value(id));
    id = renumbered[index_of(id)] = ValueId{static_cast<uint32_t>(values.size() - 1)};
  };
  const auto renumber = [&](ValueId& id) {
    if (id != kNoValue) id = renumbered[index_of(id)];
  };
  for (ProgramInput& input : program_->inputs) keep(input.value);
  std::for_each(program_->parameters.begin(), program_->parameters.end(), keep);
  std::for_each(program_->states.begin(), program_->states.end(), keep);
  for (Node& node : program_->nodes) {
    std::for_each(node.inputs.begin(), node.inputs.end(), renumber);
    std::for_each(node.outputs.begin(), node.outputs.end(), keep);
  }
  std::for_each(program_->outputs.begin(), program_->outputs.end(), renumber);
  std::for_each(program_->final_states.begin(), program_->final_states.end(), renumber);
  program_->values = std::move(values);
}

}  // namespace reprise::compile
