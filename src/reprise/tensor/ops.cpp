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
void no_result(const OpCall& call, const std::array<Tensor, kInputs>& inputs) {
  inputs[0].executor().execute(call, inputs, {});
}

}  // namespace

Tensor empty_like(const Tensor& like) {
  Tensor result;
  like.executor().execute({OpCode::empty, {.type = like.type()}}, {}, {&result, 1});
  return result;
}

Tensor slice(const Tensor& x, int dim, int64_t begin, int64_t length) {
  return one_result<1>({OpCode::slice, {.dim = dim, .begin = begin, .length = length}}, {x});
}

Tensor unflatten(const Tensor& x, int64_t heads) {
  return one_result<1>({OpCode::unflatten, {.length = heads}}, {x});
}

Tensor flatten(const Tensor& x) { return one_result<1>({OpCode::flatten, {}}, {x}); }

Tensor embedding(const Tensor& ids, const Tensor& table) {
  return one_result<2>({OpCode::embedding, {}}, {ids, table});
}

Tensor rms_norm(const Tensor& x, const Tensor& weight, float epsilon) {
  return one_result<2>({OpCode::rms_norm, {.epsilon = epsilon}}, {x, weight});
}

Tensor add(const Tensor& a, const Tensor& b) { return one_result<2>({OpCode::add, {}}, {a, b}); }

std::pair<Tensor, Tensor> fused_add_rms_norm(const Tensor& x,
                                             const Tensor& residual,
                                             const Tensor& weight,
                                             float epsilon) {
  const std::array<Tensor, 3> inputs = {x, residual, weight};
  std::array<Tensor, 2> results;
  x.executor().execute({OpCode::fused_add_rms_norm, {.epsilon = epsilon}}, inputs, results);
  return {std::move(results[0]), std::move(results[1])};
}

Tensor silu_and_mul(const Tensor& x) { return one_result<1>({OpCode::silu_and_mul, {}}, {x}); }

Tensor gather_rows(const Tensor& x, const Tensor& indices) {
  return one_result<2>({OpCode::gather_rows, {}}, {x, indices});
}

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  return one_result<3>({OpCode::linear, {}}, {x, weight, bias});
}

Tensor lm_head(const Tensor& x, const Tensor& weight, const Tensor& num_rows) {
  return one_result<3>({OpCode::lm_head, {}}, {x, weight, num_rows});
}

std::pair<Tensor, Tensor> rope(const Tensor& q,
                               const Tensor& k,
                               const Tensor& positions,
                               const Tensor& cos_sin) {
  const std::array<Tensor, 4> inputs = {q, k, positions, cos_sin};
  std::array<Tensor, 2> results;
  q.executor().execute({OpCode::rope, {}}, inputs, results);
  return {std::move(results[0]), std::move(results[1])};
}

void kv_write(const Tensor& k,
              const Tensor& v,
              const Tensor& key_cache,
              const Tensor& value_cache,
              const Tensor& slot_mapping) {
  no_result<5>({OpCode::kv_write, {}}, {k, v, key_cache, value_cache, slot_mapping});
}

void attention(const Tensor& q,
               const Tensor& key_cache,
               const Tensor& value_cache,
               const AttentionArguments& arguments,
               const Tensor& out) {
  no_result<7>({OpCode::attention,
                {.scale = arguments.scale, .sliding_window = arguments.sliding_window}},
               {q,
                key_cache,
                value_cache,
                arguments.query_start_loc,
                arguments.seq_lens,
                arguments.block_table,
                out});
}

}  // namespace reprise::ops
