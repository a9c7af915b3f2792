#pragma once

#include <array>
#include <cstdint>
#include <source_location>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "reprise/tensor/custom_op.h"
#include "reprise/tensor/op_table.h"
#include "reprise/tensor/tensor.h"

/// The functions that models are written in, one for each row of op_list.inl and with the same
/// name. A function takes the operands in the order of the signature, then the attributes, and
/// returns the results: ops::rms_norm(x, weight, epsilon). Callers may omit optional operands at
/// the end.
///
/// An op runs through the executor of its first operand. The executor launches kernels, or it
/// records a program. Results are new tensors; only `state!` and `buffer` operands are written to.
///
/// \throws ShapeError when operands do not fit, device::DeviceError from the device
namespace reprise::ops {

/// The line of model code that calls an op. If a trace fails, the error message names this line.
/// The default argument fills it in, so models never pass it.
using Where = std::source_location;

namespace detail {

template <size_t>
using TensorArgument = const Tensor&;

template <Attribute kAttribute>
constexpr auto& field_of(OpAttributes& attributes) {
  if constexpr (kAttribute == Attribute::function) return attributes.function;
  if constexpr (kAttribute == Attribute::dim) return attributes.dim;
  if constexpr (kAttribute == Attribute::begin) return attributes.begin;
  if constexpr (kAttribute == Attribute::length) return attributes.length;
  if constexpr (kAttribute == Attribute::heads) return attributes.length;
  if constexpr (kAttribute == Attribute::epsilon) return attributes.epsilon;
  if constexpr (kAttribute == Attribute::scale) return attributes.scale;
  if constexpr (kAttribute == Attribute::k_scale) return attributes.k_scale;
  if constexpr (kAttribute == Attribute::v_scale) return attributes.v_scale;
  if constexpr (kAttribute == Attribute::sliding_window) return attributes.sliding_window;
  if constexpr (kAttribute == Attribute::chunk_size) return attributes.chunk_size;
  if constexpr (kAttribute == Attribute::soft_cap) return attributes.soft_cap;
  if constexpr (kAttribute == Attribute::top_k) return attributes.length;
  if constexpr (kAttribute == Attribute::groups) return attributes.groups;
  if constexpr (kAttribute == Attribute::top_groups) return attributes.top_groups;
  if constexpr (kAttribute == Attribute::least) return attributes.least;
  if constexpr (kAttribute == Attribute::limit) return attributes.limit;
  if constexpr (kAttribute == Attribute::dtype) return attributes.type.dtype;
  if constexpr (kAttribute == Attribute::ranks) return attributes.ranks;
  if constexpr (kAttribute == Attribute::group) return attributes.row_group;
}
template <Attribute kAttribute>
using AttributeArgument =
    std::remove_reference_t<decltype(field_of<kAttribute>(std::declval<OpAttributes&>()))>;

template <OpCode kOp, typename Operands, typename Attributes>
class Caller;

template <OpCode kOp, size_t... kOperands, size_t... kAttributes>
class Caller<kOp, std::index_sequence<kOperands...>, std::index_sequence<kAttributes...>> {
  static constexpr const OpRule& kRule = kRuleOf<kOp>;
  static constexpr size_t kNumResults = kRule.results.size;

 public:
  [[nodiscard]] auto operator()(TensorArgument<kOperands>... operands,
                                AttributeArgument<kRule.attributes[kAttributes]>... attributes,
                                Where where = Where::current()) const {
    OpCall call{kOp, {}, where};
    ((field_of<kRule.attributes[kAttributes]>(call.attributes) = attributes), ...);
    const std::array<Tensor, kRule.operands.size> inputs = {operands...};
    std::array<Tensor, kNumResults> results;
    inputs[0].executor().execute(call, inputs, results);
    if constexpr (kNumResults == 1) return std::move(results[0]);
    if constexpr (kNumResults == 2) return std::pair(std::move(results[0]), std::move(results[1]));
    if constexpr (kNumResults > 2) return results;
  }
};

template <OpCode kOp, size_t kNumOperands = kRuleOf<kOp>.operands.size>
using CallerOfFirst = Caller<kOp,
                             std::make_index_sequence<kNumOperands>,
                             std::make_index_sequence<kRuleOf<kOp>.attributes.size>>;

/// The number of optional operands at the end.
template <OpCode kOp>
constexpr size_t num_last_optional() {
  constexpr const OpRule& kRule = kRuleOf<kOp>;
  size_t count = 0;
  while (count < kRule.operands.size && kRule.operands[kRule.operands.size - 1 - count].is_optional)
    ++count;
  return count;
}

// One operator() for each number of operands that are left out.
template <OpCode kOp, typename LeftOut>
struct CallerOfSome;
template <OpCode kOp, size_t... kLeftOut>
struct CallerOfSome<kOp, std::index_sequence<kLeftOut...>>
    : CallerOfFirst<kOp, kRuleOf<kOp>.operands.size - kLeftOut>... {
  using CallerOfFirst<kOp, kRuleOf<kOp>.operands.size - kLeftOut>::operator()...;
};

template <OpCode kOp>
struct Function : CallerOfSome<kOp, std::make_index_sequence<num_last_optional<kOp>() + 1>> {};

}  // namespace detail

struct AttentionArguments {
  // int32[num_reqs + 1]; request r has tokens [query_start_loc[r], query_start_loc[r + 1]).
  Tensor query_start_loc;
  Tensor seq_lens;     // int32[num_reqs]: the number of positions in the cache after this step
  Tensor block_table;  // int32[>= num_reqs, max_blocks]
  float scale = 1.0F;
  float k_scale = 1.0F;  // of a cache of eight bits
  float v_scale = 1.0F;
  int64_t sliding_window = 0;  // 0 = none
  int64_t chunk_size = 0;      // 0 = none
  float soft_cap = 0;          // 0 = none
};

namespace detail {

template <>
struct Function<OpCode::kv_write> {
  void operator()(const Tensor& k,
                  const Tensor& v,
                  const Tensor& key_cache,
                  const Tensor& value_cache,
                  const Tensor& slot_mapping,
                  float k_scale = 1.0F,
                  float v_scale = 1.0F,
                  Where where = Where::current()) const {
    CallerOfFirst<OpCode::kv_write>()(
        k, v, key_cache, value_cache, slot_mapping, k_scale, v_scale, where);
  }
};

template <>
struct Function<OpCode::attention> {
  void operator()(const Tensor& q,
                  const Tensor& key_cache,
                  const Tensor& value_cache,
                  const AttentionArguments& a,
                  const Tensor& out,
                  Where where = Where::current()) const {
    CallerOfFirst<OpCode::attention>()(q,
                                       key_cache,
                                       value_cache,
                                       a.query_start_loc,
                                       a.seq_lens,
                                       a.block_table,
                                       out,
                                       a.scale,
                                       a.k_scale,
                                       a.v_scale,
                                       a.sliding_window,
                                       a.chunk_size,
                                       a.soft_cap,
                                       where);
  }
};

template <>
struct Function<OpCode::lm_head> {
  [[nodiscard]] Tensor operator()(const Tensor& x,
                                  const Tensor& weight,
                                  const Tensor& num_rows,
                                  const Tensor& scale = {},
                                  Where where = Where::current()) const {
    return CallerOfFirst<OpCode::lm_head>()(x, weight, num_rows, scale, {}, 0.0F, where);
  }
};

template <>
struct Function<OpCode::custom> {
  [[nodiscard]] std::vector<Tensor> operator()(const CustomOp& op,
                                               std::span<const Tensor> inputs,
                                               Where where = Where::current()) const {
    std::vector<Tensor> results(op.num_outputs);
    inputs[0].executor().execute({OpCode::custom, {.custom = &op}, where}, inputs, results);
    return results;
  }
};

}  // namespace detail

#define X(op, ...) inline constexpr detail::Function<OpCode::op> op{};
#include "reprise/tensor/op_list.inl"
#undef X

/// Activations in the form in which a product with a weight takes them.
struct Activations {
  Tensor x;
  Tensor scale;  // of int8 rows; otherwise undefined
};
/// Quantises x as the layout of the weight requires; returns the operands `x` and `scale` of a
/// product.
[[nodiscard]] inline Activations activations_for(const Tensor& weight,
                                                 const Tensor& x,
                                                 Where where = Where::current()) {
  switch (activation_form(weight.layout().family)) {
    case ActivationForm::int8_rows: {
      auto [codes, scales] = quantize_per_token(x, DType::i8, where);
      return {std::move(codes), std::move(scales)};
    }
    case ActivationForm::int8_blocks:
      return {quantize_blocks(x, DType::i8, where), {}};
    case ActivationForm::elements:
      break;
  }
  return {x, {}};
}

/// Memory for a result of the same type as `like`.
[[nodiscard]] inline Tensor empty_like(const Tensor& like, Where where = Where::current()) {
  Tensor result;
  like.executor().execute({OpCode::empty, {.type = like.type()}, where}, {}, {&result, 1});
  return result;
}

}  // namespace reprise::ops
