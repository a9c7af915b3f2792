#include "reprise/program/program.h"

#include <algorithm>
#include <array>
#include <utility>

#include "reprise/tensor/custom_op.h"

namespace reprise::program {
namespace {

constexpr std::array<OpCode, kNumOpCodes> kOps = [] {
  std::array<OpCode, kNumOpCodes> ops{};
  for (size_t i = 0; i < ops.size(); ++i) ops[i] = static_cast<OpCode>(i);
  return ops;
}();

}  // namespace

ValueId Program::add_value(ValueType type, std::optional<uint32_t> state) {
  values.push_back({type, state});
  return ValueId{static_cast<uint32_t>(values.size() - 1)};
}

ValueId Program::add_input(std::string name, ValueType type, bool is_buffer) {
  const ValueId id = add_value(type);
  inputs.push_back({std::move(name), id, is_buffer});
  return id;
}

ValueId Program::add_parameter(ValueType type) {
  parameters.push_back(add_value(type));
  return parameters.back();
}

ValueId Program::add_state(ValueType type) {
  states.push_back(add_value(type, static_cast<uint32_t>(states.size())));
  final_states.push_back(states.back());
  return states.back();
}

ValueId Program::add_next_version(ValueId version) {
  const Value next = value(version);
  REPRISE_ASSERT(next.state.has_value(), "only state has versions");
  return final_states.at(*next.state) = add_value(next.type, next.state);
}

OpSignature signature_of(const OpCall& call) {
  if (call.code == OpCode::custom) {
    const CustomOp& op = *call.attributes.custom;
    return {.num_inputs = op.num_inputs,
            .num_results = op.num_outputs,
            .states = op.mutated_inputs,
            .writes_states = !op.mutated_inputs.empty()};
  }
  REPRISE_ASSERT(call.code != OpCode::row_group, "a row_group has the signature of its group");
  const OpRule& rule = definition_of(call.code).rule;
  return {.num_inputs = rule.operands.size,
          .num_results = rule.results.size,
          .states = rule.states,
          .writes_states = rule.writes_states,
          .out_buffer = rule.buffer,
          .optional_inputs = rule.optional_operands};
}

OpSignature signature_of(const Program& program, const Node& node) {
  if (node.op == OpCode::row_group) {
    const Program& group = program.groups.at(node.attributes.group);
    return {.num_inputs = group.inputs.size(), .num_results = group.outputs.size()};
  }
  return signature_of(OpCall{node.op, {.custom = node.attributes.custom}});
}

void leave_out_last_operands(Node& node) {
  const auto& operands = definition_of(node.op).rule.operands;
  while (node.inputs.size() < operands.size && operands[node.inputs.size()].is_optional) {
    node.inputs.push_back(kNoValue);
  }
}

std::span<const Attribute> attributes_of(OpCode op) noexcept {
  return definition_of(op).rule.attributes;
}

std::span<const OpCode> all_ops() noexcept { return kOps; }

std::optional<OpCode> parse_op_name(std::string_view name) noexcept {
  const auto* const found =
      std::find_if(kOps.begin(), kOps.end(), [&](OpCode op) { return op_name(op) == name; });
  return found == kOps.end() ? std::nullopt : std::optional(*found);
}

OpCall call_of(const Program& program, const Node& node, const SymbolValues& values) {
  const NodeAttributes& from = node.attributes;
  OpCall call{node.op,
              {.function = from.function,
               .epsilon = from.epsilon,
               .dim = from.dim,
               .begin = from.begin.evaluate(values),
               .length = from.length.evaluate(values),
               .scale = from.scale,
               .k_scale = from.k_scale,
               .v_scale = from.v_scale,
               .sliding_window = from.sliding_window,
               .chunk_size = from.chunk_size,
               .soft_cap = from.soft_cap,
               .groups = from.groups,
               .top_groups = from.top_groups,
               .least = from.least,
               .limit = from.limit,
               .ranks = from.ranks,
               .custom = from.custom}};
  call.attributes.type.dtype = from.dtype;
  if (node.op == OpCode::empty) {
    call.attributes.type = program.type(node.outputs.front()).evaluate(values);
  }
  return call;
}

}  // namespace reprise::program
