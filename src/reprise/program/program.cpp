#include "reprise/program/program.h"

#include <algorithm>
#include <array>
#include <utility>

namespace reprise::program {
namespace {

constexpr std::array kOps = {OpCode::empty,
                             OpCode::slice,
                             OpCode::unflatten,
                             OpCode::flatten,
                             OpCode::embedding,
                             OpCode::rms_norm,
                             OpCode::add,
                             OpCode::fused_add_rms_norm,
                             OpCode::silu_and_mul,
                             OpCode::gather_rows,
                             OpCode::linear,
                             OpCode::lm_head,
                             OpCode::rope,
                             OpCode::kv_write,
                             OpCode::attention};
static_assert(kOps.size() == static_cast<size_t>(OpCode::attention) + 1, "an op is missing");

constexpr std::array<size_t, 2> kKvWriteStates = {2, 3};
constexpr std::array<size_t, 2> kAttentionStates = {1, 2};

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

OpSignature signature_of(OpCode op) noexcept {
  switch (op) {
    case OpCode::empty:
      return {.num_inputs = 0, .num_outputs = 1};
    case OpCode::slice:
    case OpCode::unflatten:
    case OpCode::flatten:
    case OpCode::silu_and_mul:
      return {.num_inputs = 1, .num_outputs = 1};
    case OpCode::embedding:
    case OpCode::rms_norm:
    case OpCode::add:
    case OpCode::gather_rows:
      return {.num_inputs = 2, .num_outputs = 1};
    case OpCode::fused_add_rms_norm:
      return {.num_inputs = 3, .num_outputs = 2};
    case OpCode::linear:
      return {.num_inputs = 3, .num_outputs = 1, .optional_input = 2};
    case OpCode::lm_head:
      return {.num_inputs = 3, .num_outputs = 1};
    case OpCode::rope:
      return {.num_inputs = 4, .num_outputs = 2};
    case OpCode::kv_write:
      return {.num_inputs = 5, .num_outputs = 2, .states = kKvWriteStates, .writes_states = true};
    case OpCode::attention:
      return {.num_inputs = 7, .num_outputs = 1, .states = kAttentionStates, .out_buffer = 6};
  }
  return {};
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
              {.epsilon = from.epsilon,
               .dim = from.dim,
               .begin = from.begin.evaluate(values),
               .length = from.length.evaluate(values),
               .scale = from.scale,
               .sliding_window = from.sliding_window}};
  if (node.op == OpCode::empty) {
    call.attributes.type = program.type(node.outputs.front()).evaluate(values);
  }
  return call;
}

}  // namespace reprise::program
