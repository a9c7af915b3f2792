#include "reprise/tensor/ops.h"

#include <array>

#include "reprise/tensor/op.h"

namespace reprise::ops {
namespace {

template <size_t kInputs>
Tensor one_result(const OpCall& call, const std::array<Tensor, kInputs>& inputs) {
  Tensor result;
  inputs[0].executor().execute(call, inputs, {&result, 1});
  return result;
}

template <size_t kInputs>
std::pair<Tensor, Tensor> two_results(const OpCall& call,
                                      const std::array<Tensor, kInputs>& inputs) {
  std::array<Tensor, 2> results;
  inputs[0].executor().execute(call, inputs, results);
  return {std::move(results[0]), std::move(results[1])};
}

template <size_t kInputs>
void no_result(const OpCall& call, const std::array<Tensor, kInputs>& inputs) {
  inputs[0].executor().execute(call, inputs, {});
}

}  // namespace

Tensor empty_like(const Tensor& like, Where where) {
  Tensor result;
  like.executor().execute({OpCode::empty, {.type = like.type()}, where}, {}, {&result, 1});
  return result;
}

Tensor slice(const Tensor& x, int dim, int64_t begin, int64_t length, Where where) {
  return one_result<1>({OpCode::slice, {.dim = dim, .begin = begin, .length = length}, where}, {x});
}

Tensor unflatten(const Tensor& x, int64_t heads, Where where) {
  return one_result<1>({OpCode::unflatten, {.length = heads}, where}, {x});
}

Tensor flatten(const Tensor& x, Where where) {
  return one_result<1>({OpCode::flatten, {}, where}, {x});
}

Tensor embedding(const Tensor& ids, const Tensor& table, Where where) {
  return one_result<2>({OpCode::embedding, {}, where}, {ids, table});
}

Tensor rms_norm(const Tensor& x, const Tensor& weight, float epsilon, Where where) {
  return one_result<2>({OpCode::rms_norm, {.epsilon = epsilon}, where}, {x, weight});
}

Tensor add(const Tensor& a, const Tensor& b, Where where) {
  return one_result<2>({OpCode::add, {}, where}, {a, b});
}

std::pair<Tensor, Tensor> fused_add_rms_norm(
    const Tensor& x, const Tensor& residual, const Tensor& weight, float epsilon, Where where) {
  return two_results<3>({OpCode::fused_add_rms_norm, {.epsilon = epsilon}, where},
                        {x, residual, weight});
}

Tensor silu_and_mul(const Tensor& x, Where where) {
  return one_result<1>({OpCode::silu_and_mul, {}, where}, {x});
}

Tensor gather_rows(const Tensor& x, const Tensor& indices, Where where) {
  return one_result<2>({OpCode::gather_rows, {}, where}, {x, indices});
}

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias, Where where) {
  return one_result<3>({OpCode::linear, {}, where}, {x, weight, bias});
}

Tensor lm_head(const Tensor& x, const Tensor& weight, const Tensor& num_rows, Where where) {
  return one_result<3>({OpCode::lm_head, {}, where}, {x, weight, num_rows});
}

std::pair<Tensor, Tensor> rope(
    const Tensor& q, const Tensor& k, const Tensor& positions, const Tensor& cos_sin, Where where) {
  return two_results<4>({OpCode::rope, {}, where}, {q, k, positions, cos_sin});
}

void kv_write(const Tensor& k,
              const Tensor& v,
              const Tensor& key_cache,
              const Tensor& value_cache,
              const Tensor& slot_mapping,
              Where where) {
  no_result<5>({OpCode::kv_write, {}, where}, {k, v, key_cache, value_cache, slot_mapping});
}

void attention(const Tensor& q,
               const Tensor& key_cache,
               const Tensor& value_cache,
               const AttentionArguments& arguments,
               const Tensor& out,
               Where where) {
  no_result<7>({OpCode::attention,
                {.scale = arguments.scale, .sliding_window = arguments.sliding_window},
                where},
               {q,
                key_cache,
                value_cache,
                arguments.query_start_loc,
                arguments.seq_lens,
                arguments.block_table,
                out});
}

std::vector<Tensor> custom(const CustomOp& op, std::span<const Tensor> inputs, Where where) {
  std::vector<Tensor> results(op.num_outputs);
  inputs[0].executor().execute({OpCode::custom, {.custom = &op}, where}, inputs, results);
  return results;
}

}  // namespace reprise::ops
