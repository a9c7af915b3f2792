#pragma once

#include "reprise/kernels/elementwise/elementwise.h"
#include "reprise/kernels/mul_gate/mul_gate.h"
#include "reprise/kernels/sigmoid_gate/sigmoid_gate.h"
#include "reprise/kernels/silu_and_mul/silu_and_mul.h"
#include "reprise/kernels/swigluoai_and_mul/swigluoai_and_mul.h"
#include "reprise/tensor/tensor.h"

/// Reference implementations of activations and gates, in double.
namespace reprise::kernels {

[[nodiscard]] double gelu_ref(double x);
[[nodiscard]] double gelu_tanh_ref(double x);
void silu_and_mul_ref(const Tensor& x, const Tensor& out);
void swigluoai_and_mul_ref(const Tensor& x, float limit, const Tensor& out);
void mul_gate_ref(OpFunction function, const Tensor& x, const Tensor& gate, const Tensor& out);
void sigmoid_gate_ref(const Tensor& x, const Tensor& gate, const Tensor& out);

}  // namespace reprise::kernels
