#include "reprise/tensor/view.h"

#include "reprise/tensor/op_table.h"

namespace reprise {
namespace {

Tensor slice(const Tensor& x, const OpAttributes& attributes) {
  Shape shape = x.shape();
  shape[attributes.dim] = attributes.length;
  return x.with_layout(shape, x.strides(), attributes.begin * x.stride(attributes.dim));
}

Tensor unflatten(const Tensor& x, int64_t heads) {
  const int64_t head_dim = x.size(1) / heads;
  return x.with_layout(
      {x.size(0), heads, head_dim}, {x.stride(0), head_dim * x.stride(1), x.stride(1)}, 0);
}

Tensor flatten(const Tensor& x) {
  return x.with_layout({x.size(0), x.size(1) * x.size(2)}, {x.stride(0), x.stride(2)}, 0);
}

}  // namespace

bool is_view(OpCode code) noexcept { return definition_of(code).properties.is_view; }

Tensor make_view(const OpCall& call, const Tensor& x) {
  REPRISE_ASSERT(is_view(call.code), "{} is not a view", op_name(call.code));
  if (call.code == OpCode::slice) return slice(x, call.attributes);
  return call.code == OpCode::unflatten ? unflatten(x, call.attributes.length) : flatten(x);
}

}  // namespace reprise
