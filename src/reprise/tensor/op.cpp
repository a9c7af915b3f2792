#include "reprise/tensor/op.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>

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

void check_attention(const Signature& in) {
  in.count(7);
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
  in.require(in[6].type() == q.type(), "out must have the type of q");
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
  }
  return "unknown";
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
      in.require(in[0].rank() >= 2 && in[1].rank() == 1 && in[0].size(-1) == in[1].size(0) &&
                     in[0].dtype() == in[1].dtype(),
                 "the weight must have the last dimension and the dtype of x");
      outputs[0] = in[0].type();
      return 1;
    case OpCode::add:
      in.count(2);
      in.require(in[0].type() == in[1].type(), "both must have the same type");
      outputs[0] = in[0].type();
      return 1;
    case OpCode::fused_add_rms_norm:
      in.count(3);
      in.require(in[0].type() == in[1].type() && in[0].rank() >= 2 && in[2].rank() == 1 &&
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
      in.require(in[0].rank() == 2 && in[1].rank() == 2 && in[0].size(1) == in[1].size(1) &&
                     in[0].dtype() == in[1].dtype(),
                 "needs x[num_tokens, in] and weight[out, in] of one dtype");
      in.require(!in[2].defined() || (in[2].rank() == 1 && in[2].size(0) == in[1].size(0) &&
                                      in[2].dtype() == in[0].dtype()),
                 "the bias must be [out] and of the dtype of x");
      outputs[0] = {in[0].dtype(), {in[0].size(0), in[1].size(0)}};
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
      check_attention(in);
      return 0;
  }
  REPRISE_ASSERT(false, "op {} has no type rule", static_cast<int>(call.code));
  return 0;
}

}  // namespace reprise
