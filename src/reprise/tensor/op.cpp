#include "reprise/tensor/op.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>

#include "reprise/tensor/custom_op.h"

namespace reprise {
namespace {

// One op call being checked: gives rules short names and failures all the facts.
class Signature {
 public:
  Signature(const OpCall& call, std::span<const Tensor> inputs) : call_(call), inputs_(inputs) {}

  void count(size_t expected) const {
    if (inputs_.size() == expected) [[likely]]
      return;  // builds no message: eager ops come by here
    require(false, fmt::format("takes {} arguments", expected));
  }
  void require(bool holds, std::string_view rule) const {
    if (holds) [[likely]]
      return;
    std::vector<std::string> types;
    for (const Tensor& input : inputs_) {
      types.push_back(input.defined() ? input.type().to_string() : "none");
    }
    throw ShapeError(fmt::format("{}({}): {}", op_name(call_.code), fmt::join(types, ", "), rule));
  }
  const Tensor& operator[](size_t index) const { return inputs_[index]; }

 private:
  const OpCall& call_;
  std::span<const Tensor> inputs_;
};

bool is_indices(const Tensor& tensor) { return tensor.dtype() == DType::i32 && tensor.rank() == 1; }

bool same_leading_dims(const Tensor& a, const Tensor& b, int dims) {
  for (int dim = 0; dim < dims; ++dim) {
    if (a.size(dim) != b.size(dim)) return false;
  }
  return true;
}

bool is_eight_bits(DType dtype) { return dtype == DType::i8 || dtype == DType::f8e4m3; }

bool is_f32(const Tensor& tensor, int64_t size) {
  return tensor.dtype() == DType::f32 && tensor.rank() == 1 && tensor.size(0) == size;
}

void check_norm(const Signature& in, const Tensor& x, const Tensor& weight) {
  in.require(x.rank() >= 2 && weight.rank() == 1 && x.size(-1) == weight.size(0) &&
                 x.dtype() == weight.dtype(),
             "the weight must have the last dimension and the dtype of x");
}

// The product of operands 0 (x), 1 (weight) and 2 (bias).
TensorType check_linear(const Signature& in) {
  in.require(in[0].rank() == 2 && in[1].rank() == 2 && in[0].size(1) == in[1].size(1) &&
                 in[0].dtype() == in[1].dtype(),
             "needs x[num_tokens, in] and weight[out, in] of one dtype");
  in.require(!in[2].defined() || (in[2].rank() == 1 && in[2].size(0) == in[1].size(0) &&
                                  in[2].dtype() == in[0].dtype()),
             "the bias must be [out] and of the dtype of x");
  return {in[0].dtype(), {in[0].size(0), in[1].size(0)}};
}

// positions, cos_sin, key_cache, value_cache, slot_mapping, q_norm, k_norm from operand `first` on.
void check_rope_and_cache(const Signature& in, size_t first, DType dtype, int64_t num_tokens) {
  const Tensor& table = in[first + 1];
  const Tensor& keys = in[first + 2];
  in.require(keys.rank() == 4 && in[first + 3].type() == keys.type() && keys.dtype() == dtype &&
                 keys.size(1) > 0 && keys.size(2) > 0,
             "caches must both be [num_blocks, num_kv_heads, block_size, head_dim] of x's dtype");
  const int64_t head_dim = keys.size(3);
  in.require(head_dim % 2 == 0 && table.dtype() == DType::f32 && table.rank() == 2 &&
                 table.size(1) == head_dim,
             "needs a float32 [max_position, head_dim] table and an even head_dim");
  for (size_t integers : {first, first + 4}) {
    in.require(is_indices(in[integers]) && in[integers].size(0) == num_tokens,
               "one int32 position and one int32 slot per token");
  }
  const Tensor& q_norm = in[first + 5];
  const Tensor& k_norm = in[first + 6];
  in.require(q_norm.defined() == k_norm.defined(), "the norms of q and k come together");
  if (!q_norm.defined()) return;
  in.require(q_norm.type() == TensorType{dtype, {head_dim}} && k_norm.type() == q_norm.type(),
             "norms must be [head_dim] and of x's dtype");
}

void check_attention(const Signature& in) {
  const Tensor& q = in[0];
  const Tensor& keys = in[1];
  in.require(q.rank() == 3, "q must be [num_tokens, num_heads, head_dim]");
  in.require(keys.rank() == 4 && in[2].type() == keys.type(),
             "caches must both be [num_blocks, num_kv_heads, block_size, head_dim]");
  in.require(keys.size(3) == q.size(2) && keys.dtype() == q.dtype(),
             "caches and q must have the same dtype and head_dim");
  in.require(keys.size(1) > 0 && q.size(1) % keys.size(1) == 0,
             "num_heads must be a multiple of num_kv_heads");
  in.require(keys.size(2) > 0, "block_size must not be zero");
  in.require(is_indices(in[3]) && is_indices(in[4]) && in[3].size(0) == in[4].size(0) + 1,
             "query_start_loc must be int32[num_reqs + 1] and seq_lens int32[num_reqs]");
  in.require(in[5].dtype() == DType::i32 && in[5].rank() == 2 && in[5].size(0) >= in[4].size(0),
             "block_table must be int32[num_reqs, max_blocks]");
}

}  // namespace

std::string_view op_name(OpCode code) noexcept {
  switch (code) {
    case OpCode::empty:
      return "empty";
    case OpCode::slice:
      return "slice";
    case OpCode::unflatten:
      return "unflatten";
    case OpCode::flatten:
      return "flatten";
    case OpCode::embedding:
      return "embedding";
    case OpCode::rms_norm:
      return "rms_norm";
    case OpCode::add:
      return "add";
    case OpCode::fused_add_rms_norm:
      return "fused_add_rms_norm";
    case OpCode::silu_and_mul:
      return "silu_and_mul";
    case OpCode::gather_rows:
      return "gather_rows";
    case OpCode::linear:
      return "linear";
    case OpCode::lm_head:
      return "lm_head";
    case OpCode::rope:
      return "rope";
    case OpCode::kv_write:
      return "kv_write";
    case OpCode::attention:
      return "attention";
    case OpCode::linear_add:
      return "linear_add";
    case OpCode::linear_silu_and_mul:
      return "linear_silu_and_mul";
    case OpCode::rope_kv_write:
      return "rope_kv_write";
    case OpCode::linear_rope_kv_write:
      return "linear_rope_kv_write";
    case OpCode::rms_norm_linear_silu_and_mul:
      return "rms_norm_linear_silu_and_mul";
    case OpCode::rms_norm_linear_rope_kv_write:
      return "rms_norm_linear_rope_kv_write";
    case OpCode::rms_norm_lm_head:
      return "rms_norm_lm_head";
    case OpCode::quantize_per_token:
      return "quantize_per_token";
    case OpCode::quantize_static:
      return "quantize_static";
    case OpCode::rms_norm_quant:
      return "rms_norm_quant";
    case OpCode::fused_add_rms_norm_quant:
      return "fused_add_rms_norm_quant";
    case OpCode::silu_and_mul_quant:
      return "silu_and_mul_quant";
    case OpCode::scaled_linear:
      return "scaled_linear";
    case OpCode::attention_quant:
      return "attention_quant";
    case OpCode::all_reduce:
      return "all_reduce";
    case OpCode::reduce_scatter:
      return "reduce_scatter";
    case OpCode::all_gather:
      return "all_gather";
    case OpCode::fused_all_reduce_add_rms_norm:
      return "fused_all_reduce_add_rms_norm";
    case OpCode::linear_reduce_scatter:
      return "linear_reduce_scatter";
    case OpCode::all_gather_linear:
      return "all_gather_linear";
    case OpCode::row_group:
      return "row_group";
    case OpCode::custom:
      return "custom";
  }
  return "unknown";
}

std::optional<OpCode> op_behind_norm(OpCode code) noexcept {
  switch (code) {
    case OpCode::rms_norm_linear_silu_and_mul:
      return OpCode::linear_silu_and_mul;
    case OpCode::rms_norm_linear_rope_kv_write:
      return OpCode::linear_rope_kv_write;
    case OpCode::rms_norm_lm_head:
      return OpCode::lm_head;
    default:
      return std::nullopt;
  }
}

size_t infer_output_types(const OpCall& call,
                          std::span<const Tensor> inputs,
                          std::span<TensorType> outputs) {
  const Signature in(call, inputs);
  const OpAttributes& attributes = call.attributes;
  switch (call.code) {
    case OpCode::empty:
      outputs[0] = attributes.type;
      return 1;
    case OpCode::slice: {
      in.count(1);
      const bool fits = attributes.dim >= 0 && attributes.dim < in[0].rank() &&
                        attributes.begin >= 0 && attributes.length >= 0 &&
                        attributes.begin + attributes.length <= in[0].size(attributes.dim);
      in.require(fits, "the slice leaves the tensor");
      outputs[0] = in[0].type();
      outputs[0].shape[attributes.dim] = attributes.length;
      return 1;
    }
    case OpCode::unflatten: {
      in.count(1);
      in.require(
          in[0].rank() == 2 && attributes.length > 0 && in[0].size(1) % attributes.length == 0,
          "needs [num_tokens, heads * head_dim]");
      outputs[0] = {in[0].dtype(),
                    {in[0].size(0), attributes.length, in[0].size(1) / attributes.length}};
      return 1;
    }
    case OpCode::flatten:
      in.count(1);
      in.require(in[0].rank() == 3 && in[0].stride(1) == in[0].size(2),
                 "needs [num_tokens, heads, head_dim] with adjacent heads");
      outputs[0] = {in[0].dtype(), {in[0].size(0), in[0].size(1) * in[0].size(2)}};
      return 1;
    case OpCode::embedding:
      in.count(2);
      in.require(is_indices(in[0]) && in[1].rank() == 2,
                 "needs int32 ids and a [vocab, hidden] table");
      outputs[0] = {in[1].dtype(), {in[0].size(0), in[1].size(1)}};
      return 1;
    case OpCode::rms_norm:
      in.count(2);
      check_norm(in, in[0], in[1]);
      outputs[0] = in[0].type();
      return 1;
    case OpCode::add:
      in.count(2);
      in.require(in[0].type() == in[1].type(), "both must have the same type");
      outputs[0] = in[0].type();
      return 1;
    case OpCode::fused_add_rms_norm:
      in.count(3);
      in.require(
          in[0].type() == in[1].type() && in[0].rank() >= 2 && in[2].rank() == 1 &&
              in[0].size(-1) == in[2].size(0) && in[0].dtype() == in[2].dtype(),
          "x and residual must have the same type, the weight their last dimension and dtype");
      outputs[0] = outputs[1] = in[0].type();
      return 2;
    case OpCode::silu_and_mul:
      in.count(1);
      in.require(in[0].rank() == 2 && in[0].size(1) % 2 == 0,
                 "needs [num_tokens, 2 * intermediate]");
      outputs[0] = {in[0].dtype(), {in[0].size(0), in[0].size(1) / 2}};
      return 1;
    case OpCode::gather_rows:
      in.count(2);
      in.require(in[0].rank() == 2 && is_indices(in[1]),
                 "needs [num_tokens, hidden] and int32 indices");
      outputs[0] = {in[0].dtype(), {in[1].size(0), in[0].size(1)}};
      return 1;
    case OpCode::linear:
      in.count(3);
      outputs[0] = check_linear(in);
      return 1;
    case OpCode::lm_head:
      in.count(3);
      in.require(in[0].rank() == 2 && in[1].rank() == 2 && in[0].size(1) == in[1].size(1) &&
                     in[0].dtype() == in[1].dtype() && is_indices(in[2]) && in[2].size(0) == 1,
                 "needs x[rows, hidden], weight[vocab, hidden] and num_rows int32[1]");
      outputs[0] = {DType::f32, {in[0].size(0), in[1].size(0)}};
      return 1;
    case OpCode::rope:
      in.count(4);
      in.require(in[0].rank() == 3 && in[1].rank() == 3 && in[0].size(2) == in[1].size(2) &&
                     same_leading_dims(in[0], in[1], 1) && in[0].dtype() == in[1].dtype(),
                 "q and k must be [num_tokens, heads, head_dim]");
      in.require(in[0].size(2) % 2 == 0, "head_dim must be even");
      in.require(is_indices(in[2]) && in[2].size(0) == in[0].size(0) &&
                     in[3].dtype() == DType::f32 && in[3].rank() == 2 &&
                     in[3].size(1) == in[0].size(2),
                 "needs int32 positions and a float32 [max_position, head_dim] table");
      outputs[0] = in[0].type();
      outputs[1] = in[1].type();
      return 2;
    case OpCode::kv_write:
      in.count(5);
      in.require(in[0].rank() == 3 && in[1].type() == in[0].type() && in[2].rank() == 4 &&
                     in[3].type() == in[2].type() && in[2].size(1) == in[0].size(1) &&
                     in[2].size(3) == in[0].size(2) && in[2].dtype() == in[0].dtype() &&
                     in[2].size(2) > 0,
                 "k and v must be [num_tokens, num_kv_heads, head_dim] and fit the caches");
      in.require(is_indices(in[4]) && in[4].size(0) == in[0].size(0), "one int32 slot per token");
      return 0;
    case OpCode::attention:
      in.count(7);
      check_attention(in);
      in.require(in[6].type() == in[0].type(), "out must have the type of q");
      return 0;
    case OpCode::linear_add:
      in.count(4);
      outputs[0] = check_linear(in);
      in.require(in[3].type() == outputs[0], "the residual must have the type of the product");
      return 1;
    case OpCode::linear_silu_and_mul:
      in.count(3);
      outputs[0] = check_linear(in);
      in.require(in[1].size(0) % 2 == 0, "the weight must be [2 * intermediate, in]");
      outputs[0].shape[1] /= 2;
      return 1;
    case OpCode::rope_kv_write:
      in.count(10);
      in.require(in[0].rank() == 3 && in[1].rank() == 3 && in[2].type() == in[1].type() &&
                     in[0].dtype() == in[1].dtype() && in[0].size(0) == in[1].size(0) &&
                     in[0].size(2) == in[1].size(2),
                 "q, k and v must be [num_tokens, heads, head_dim]");
      check_rope_and_cache(in, 3, in[0].dtype(), in[0].size(0));
      in.require(in[5].size(1) == in[1].size(1) && in[5].size(3) == in[1].size(2),
                 "k must fit the caches");
      outputs[0] = in[0].type();
      return 1;
    case OpCode::linear_rope_kv_write: {
      in.count(10);
      const TensorType qkv = check_linear(in);
      check_rope_and_cache(in, 3, in[0].dtype(), in[0].size(0));
      const int64_t head_dim = in[5].size(3);
      in.require(attributes.length > 0 &&
                     qkv.shape[1] == (attributes.length + 2 * in[5].size(1)) * head_dim,
                 "the weight must be [(heads + 2 * num_kv_heads) * head_dim, in]");
      outputs[0] = {qkv.dtype, {qkv.shape[0], attributes.length, head_dim}};
      return 1;
    }
    case OpCode::rms_norm_linear_silu_and_mul:
    case OpCode::rms_norm_linear_rope_kv_write:
    case OpCode::rms_norm_lm_head:
      in.require(inputs.size() >= 2 && inputs.back().defined(), "needs the weight of a norm");
      check_norm(in, in[0], inputs.back());
      return infer_output_types({*op_behind_norm(call.code), attributes, call.where},
                                inputs.first(inputs.size() - 1),
                                outputs);
    case OpCode::quantize_per_token:
      in.count(1);
      in.require(in[0].rank() == 2 && is_eight_bits(attributes.type.dtype),
                 "needs [num_tokens, hidden] and int8 or float8 to quantise to");
      outputs[0] = {attributes.type.dtype, in[0].shape()};
      outputs[1] = {DType::f32, {in[0].size(0)}};
      return 2;
    case OpCode::quantize_static:
      in.count(2);
      in.require(is_eight_bits(attributes.type.dtype) && is_f32(in[1], 1),
                 "needs one float32 scale and int8 or float8 to quantise to");
      outputs[0] = {attributes.type.dtype, in[0].shape()};
      return 1;
    case OpCode::rms_norm_quant:
      in.count(2);
      check_norm(in, in[0], in[1]);
      in.require(in[0].rank() == 2 && is_eight_bits(attributes.type.dtype),
                 "needs [num_tokens, hidden] and int8 or float8 to quantise to");
      outputs[0] = {attributes.type.dtype, in[0].shape()};
      outputs[1] = {DType::f32, {in[0].size(0)}};
      return 2;
    case OpCode::fused_add_rms_norm_quant:
      in.count(3);
      check_norm(in, in[0], in[2]);
      in.require(
          in[1].type() == in[0].type() && in[0].rank() == 2 && is_eight_bits(attributes.type.dtype),
          "x and residual must be [num_tokens, hidden], the result int8 or float8");
      outputs[0] = {attributes.type.dtype, in[0].shape()};
      outputs[1] = {DType::f32, {in[0].size(0)}};
      outputs[2] = in[0].type();
      return 3;
    case OpCode::silu_and_mul_quant:
      in.count(1);
      in.require(
          in[0].rank() == 2 && in[0].size(1) % 2 == 0 && is_eight_bits(attributes.type.dtype),
          "needs [num_tokens, 2 * intermediate] and int8 or float8 to quantise to");
      outputs[0] = {attributes.type.dtype, {in[0].size(0), in[0].size(1) / 2}};
      outputs[1] = {DType::f32, {in[0].size(0)}};
      return 2;
    case OpCode::scaled_linear:
      in.count(5);
      in.require(in[0].rank() == 2 && in[2].rank() == 2 && in[0].size(1) == in[2].size(1) &&
                     in[0].dtype() == in[2].dtype() && is_eight_bits(in[0].dtype()),
                 "needs x[num_tokens, in] and weight[out, in] of one eight-bit dtype");
      in.require((is_f32(in[1], in[0].size(0)) || is_f32(in[1], 1)) && is_f32(in[3], in[2].size(0)),
                 "needs a float32 scale per token (or one), and one per output");
      in.require(
          !in[4].defined() || in[4].type() == TensorType{attributes.type.dtype, {in[2].size(0)}},
          "the bias must be [out] and of the dtype of the result");
      outputs[0] = {attributes.type.dtype, {in[0].size(0), in[2].size(0)}};
      return 1;
    case OpCode::attention_quant:
      in.count(8);
      check_attention(in);
      in.require(is_f32(in[6], 1) && is_eight_bits(in[7].dtype()) && in[7].shape() == in[0].shape(),
                 "needs one float32 scale, and out of q's shape and eight bits");
      return 0;
    case OpCode::all_reduce:
      in.count(1);
      in.require(attributes.ranks > 0, "needs a group of ranks");
      outputs[0] = in[0].type();
      return 1;
    case OpCode::reduce_scatter:
      in.count(1);
      in.require(in[0].rank() == 2 && attributes.ranks > 0 && in[0].size(0) % attributes.ranks == 0,
                 "needs rows that the ranks divide");
      outputs[0] = {in[0].dtype(), {in[0].size(0) / attributes.ranks, in[0].size(1)}};
      return 1;
    case OpCode::all_gather:
      in.count(1);
      in.require(in[0].rank() == 2 && attributes.ranks > 0, "needs rows and a group of ranks");
      outputs[0] = {in[0].dtype(), {in[0].size(0) * attributes.ranks, in[0].size(1)}};
      return 1;
    case OpCode::fused_all_reduce_add_rms_norm:
      in.count(3);
      check_norm(in, in[0], in[2]);
      in.require((!in[1].defined() || in[1].type() == in[0].type()) && attributes.ranks > 0,
                 "x and residual must have the same type");
      outputs[0] = outputs[1] = in[0].type();
      return 2;
    case OpCode::linear_reduce_scatter:
      in.count(3);
      outputs[0] = check_linear(in);
      in.require(attributes.ranks > 0 && in[0].size(0) % attributes.ranks == 0,
                 "needs rows that the ranks divide");
      outputs[0].shape[0] /= attributes.ranks;
      return 1;
    case OpCode::all_gather_linear:
      in.count(3);
      outputs[0] = check_linear(in);
      in.require(attributes.ranks > 0, "needs a group of ranks");
      outputs[0].shape[0] *= attributes.ranks;
      return 1;
    case OpCode::row_group: {
      const RowGroup& group = *attributes.row_group;
      in.require(group.rows_of < inputs.size(), "has no operand to count rows of");
      for (size_t i = 0; i < group.results.size(); ++i) {
        outputs[i] = {group.results[i].dtype, group.results[i].shape};
        outputs[i].shape[0] = in[group.rows_of].size(0);
      }
      return group.results.size();
    }
    case OpCode::custom:
      in.count(attributes.custom->num_inputs);
      attributes.custom->infer_types(inputs, outputs.first(attributes.custom->num_outputs));
      return attributes.custom->num_outputs;
  }
  REPRISE_ASSERT(false, "op {} has no type rule", static_cast<int>(call.code));
  return 0;
}

}  // namespace reprise
