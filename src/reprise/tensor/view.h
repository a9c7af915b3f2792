#pragma once

#include "reprise/tensor/op.h"
#include "reprise/tensor/tensor.h"

namespace reprise {

/// slice, unflatten, flatten: other shape and strides over the same memory, no work.
[[nodiscard]] bool is_view(OpCode code) noexcept;

/// The result of a view op: what executors that compute, record or check share.
/// \pre is_view(call.code), and infer_output_types has accepted the call
[[nodiscard]] Tensor make_view(const OpCall& call, const Tensor& x);

}  // namespace reprise
