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

template <size_t... kIndices>
inline constexpr std::array<size_t, sizeof...(kIndices)> kOperands = {kIndices...};

OpSignature plain(size_t num_inputs, size_t num_results = 1) {
  return {.num_inputs = num_inputs, .num_results = num_results};
}
OpSignature with_optional(OpSignature signature, std::span<const size_t> optional_inputs) {
  signature.optional_inputs = optional_inputs;
  return signature;
}
OpSignature writing(OpSignature signature, std::span<const size_t> states) {
  signature.states = states;
  signature.writes_states = true;
  return signature;
}

constexpr std::array kSliceAttributes = {Attribute::dim, Attribute::begin, Attribute::length};
constexpr std::array kHeads = {Attribute::heads};
constexpr std::array kEpsilon = {Attribute::epsilon};
constexpr std::array kEpsilonHeads = {Attribute::epsilon, Attribute::heads};
constexpr std::array kEpsilonDType = {Attribute::epsilon, Attribute::dtype};
constexpr std::array kEpsilonRanks = {Attribute::epsilon, Attribute::ranks};
constexpr std::array kScale = {Attribute::scale, Attribute::sliding_window};
constexpr std::array kDType = {Attribute::dtype};
constexpr std::array kRanks = {Attribute::ranks};
constexpr std::array kGroup = {Attribute::group};

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
  switch (call.code) {
    case OpCode::empty:
      return plain(0);
    case OpCode::slice:
    case OpCode::unflatten:
    case OpCode::flatten:
    case OpCode::silu_and_mul:
    case OpCode::all_reduce:
    case OpCode::reduce_scatter:
    case OpCode::all_gather:
      return plain(1);
    case OpCode::embedding:
    case OpCode::rms_norm:
    case OpCode::add:
    case OpCode::gather_rows:
    case OpCode::quantize_static:
      return plain(2);
    case OpCode::lm_head:
      return plain(3);
    case OpCode::linear:
    case OpCode::linear_silu_and_mul:
    case OpCode::linear_reduce_scatter:
    case OpCode::all_gather_linear:
      return with_optional(plain(3), kOperands<2>);
    case OpCode::linear_add:
      return with_optional(plain(4), kOperands<2>);
    case OpCode::scaled_linear:
      return with_optional(plain(5), kOperands<4>);
    case OpCode::fused_add_rms_norm:
      return plain(3, 2);
    case OpCode::fused_all_reduce_add_rms_norm:
      return with_optional(plain(3, 2), kOperands<1>);
    case OpCode::rope:
      return plain(4, 2);
    case OpCode::quantize_per_token:
    case OpCode::silu_and_mul_quant:
      return plain(1, 2);
    case OpCode::rms_norm_quant:
      return plain(2, 2);
    case OpCode::fused_add_rms_norm_quant:
      return plain(3, 3);
    case OpCode::kv_write:
      return writing(plain(5, 0), kOperands<2, 3>);
    case OpCode::rope_kv_write:
      return writing(with_optional(plain(10), kOperands<8, 9>), kOperands<5, 6>);
    case OpCode::linear_rope_kv_write:
      return writing(with_optional(plain(10), kOperands<2, 8, 9>), kOperands<5, 6>);
    case OpCode::rms_norm_lm_head:
      return plain(4);
    case OpCode::rms_norm_linear_silu_and_mul:
      return with_optional(plain(4), kOperands<2>);
    case OpCode::rms_norm_linear_rope_kv_write:
      return writing(with_optional(plain(11), kOperands<2, 8, 9>), kOperands<5, 6>);
    case OpCode::attention:
      return {.num_inputs = 7, .states = kOperands<1, 2>, .out_buffer = 6};
    case OpCode::attention_quant:
      return {.num_inputs = 8, .states = kOperands<1, 2>, .out_buffer = 7};
    case OpCode::custom: {
      const CustomOp& op = *call.attributes.custom;
      return {.num_inputs = op.num_inputs,
              .num_results = op.num_outputs,
              .states = op.mutated_inputs,
              .writes_states = !op.mutated_inputs.empty()};
    }
    case OpCode::row_group:
      break;
  }
  REPRISE_ASSERT(false, "{} has no signature of its own", op_name(call.code));
  return {};
}

OpSignature signature_of(const Program& program, const Node& node) {
  if (node.op == OpCode::row_group) {
    const Program& group = program.groups.at(node.attributes.group);
    return plain(group.inputs.size(), group.outputs.size());
  }
  return signature_of(OpCall{node.op, {.custom = node.attributes.custom}});
}

std::span<const Attribute> attributes_of(OpCode op) noexcept {
  switch (op) {
    case OpCode::slice:
      return kSliceAttributes;
    case OpCode::unflatten:
      return kHeads;
    case OpCode::rms_norm:
    case OpCode::fused_add_rms_norm:
    case OpCode::rope_kv_write:
    case OpCode::rms_norm_linear_silu_and_mul:
    case OpCode::rms_norm_lm_head:
      return kEpsilon;
    case OpCode::linear_rope_kv_write:
    case OpCode::rms_norm_linear_rope_kv_write:
      return kEpsilonHeads;
    case OpCode::rms_norm_quant:
    case OpCode::fused_add_rms_norm_quant:
      return kEpsilonDType;
    case OpCode::fused_all_reduce_add_rms_norm:
      return kEpsilonRanks;
    case OpCode::attention:
    case OpCode::attention_quant:
      return kScale;
    case OpCode::quantize_per_token:
    case OpCode::quantize_static:
    case OpCode::silu_and_mul_quant:
    case OpCode::scaled_linear:
      return kDType;
    case OpCode::all_reduce:
    case OpCode::reduce_scatter:
    case OpCode::all_gather:
    case OpCode::linear_reduce_scatter:
    case OpCode::all_gather_linear:
      return kRanks;
    case OpCode::row_group:
      return kGroup;
    default:
      return {};
  }
}

std::string_view attribute_name(Attribute attribute) noexcept {
  switch (attribute) {
    case Attribute::dim:
      return "dim";
    case Attribute::begin:
      return "begin";
    case Attribute::length:
      return "length";
    case Attribute::heads:
      return "heads";
    case Attribute::epsilon:
      return "epsilon";
    case Attribute::scale:
      return "scale";
    case Attribute::sliding_window:
      return "sliding_window";
    case Attribute::dtype:
      return "dtype";
    case Attribute::ranks:
      return "ranks";
    case Attribute::group:
      return "group";
  }
  return "?";
}

bool is_row_wise(OpCode op) noexcept {
  switch (op) {
    case OpCode::slice:
    case OpCode::unflatten:
    case OpCode::flatten:
    case OpCode::embedding:
    case OpCode::rms_norm:
    case OpCode::add:
    case OpCode::fused_add_rms_norm:
    case OpCode::silu_and_mul:
    case OpCode::gather_rows:
    case OpCode::rope:
    case OpCode::quantize_per_token:
    case OpCode::quantize_static:
    case OpCode::rms_norm_quant:
    case OpCode::fused_add_rms_norm_quant:
    case OpCode::silu_and_mul_quant:
      return true;
    default:
      return false;
  }
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
               .sliding_window = from.sliding_window,
               .ranks = from.ranks,
               .custom = from.custom}};
  call.attributes.type.dtype = from.dtype;
  if (node.op == OpCode::empty) {
    call.attributes.type = program.type(node.outputs.front()).evaluate(values);
  }
  return call;
}

}  // namespace reprise::program
