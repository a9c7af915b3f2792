#pragma once

#include "reprise/tensor/op.h"
#include "reprise/tensor/tensor.h"

namespace reprise {

/// Whether an op is slice, unflatten or flatten. These ops give the same memory another shape and
/// other strides, and launch nothing.
[[nodiscard]] bool is_view(OpCode code) noexcept;

/// The result of a view op. Executors that run, record or check programs all call this function.
/// \pre is_view(call.code), and infer_output_types has accepted the call
[[nodiscard]] Tensor make_view(const OpCall& call, const Tensor& x);

}  // namespace reprise
