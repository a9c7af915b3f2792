#pragma once

#include "reprise/kernels/cuda/row_kernels.cuh"
#include "reprise/kernels/elementwise/elementwise_arguments.h"
#include "reprise/kernels/mul_gate/mul_gate_arguments.h"
#include "reprise/kernels/sigmoid_gate/sigmoid_gate_arguments.h"
#include "reprise/kernels/swigluoai_and_mul/swigluoai_and_mul_arguments.h"

// Activations and gates: each element is computed by itself.
namespace reprise::kernels::cuda {

REPRISE_DEVICE float gelu_of(float x) {
  const float half = x * 0.5F;
  return multiply_add(half, error_function(x * 0.70710678118654752F), half);
}
/// x * (1 + tanh(u)) / 2 is x / (1 + exp(-2 u)), which has no cancellation.
REPRISE_DEVICE float gelu_tanh_of(float x) {
  // -2 * sqrt(2 / pi) * (1 + 0.044715 x^2)
  const float factor = multiply_add(x * x, -0.0713548162726009F, -1.59576912160573F);
  return x / (1.0F + exponential(x * factor));
}
REPRISE_DEVICE float soft_capped(float x, float cap) { return hyperbolic_tangent(x / cap) * cap; }
REPRISE_DEVICE float sigmoid(float x) { return 1.0F / (1.0F + exponential(-x)); }

template <typename T, typename Function>
REPRISE_DEVICE void elementwise(const ElementwiseArguments& a, const Function& function) {
  for_each_tile_columns(a.tiles, [&](int64_t row, int64_t column, int64_t count) {
    float values[kColumns];
    load_columns(static_cast<const T*>(a.x) + row_offset(a.x_layout, row) + column, count, values);
    for (float& value : values) value = function(value);
    store_columns(static_cast<T*>(a.out) + row * a.tiles.width + column, count, values);
  });
}

template <typename T>
REPRISE_DEVICE void activation(const ElementwiseArguments& a) {
  if (a.function == OpFunction::gelu) {
    elementwise<T>(a, [](float x) { return gelu_of(x); });
  } else if (a.function == OpFunction::gelu_tanh) {
    elementwise<T>(a, [](float x) { return gelu_tanh_of(x); });
  } else {
    const bool is_squared = a.function == OpFunction::relu2;
    // The comparison keeps a NaN.
    elementwise<T>(a, [&](float x) { return x < 0.0F ? 0.0F : (is_squared ? x * x : x); });
  }
}
template <typename T>
REPRISE_DEVICE void scale(const ElementwiseArguments& a) {
  elementwise<T>(a, [&](float x) { return x * a.parameter; });
}
template <typename T>
REPRISE_DEVICE void soft_cap(const ElementwiseArguments& a) {
  elementwise<T>(a, [&](float x) { return soft_capped(x, a.parameter); });
}
template <typename T>
REPRISE_DEVICE void clamp(const ElementwiseArguments& a) {
  elementwise<T>(a, [&](float x) {
    // The comparisons keep a NaN.
    const float most = x > a.parameter ? a.parameter : x;
    return most < a.least ? a.least : most;
  });
}

template <typename T>
REPRISE_DEVICE void activation_and_mul(const SiluAndMulArguments& a) {
  const bool is_exact = a.function == OpFunction::gelu;
  combine_halves<T>(a, [&](float gate, float up) {
    return (is_exact ? gelu_of(gate) : gelu_tanh_of(gate)) * up;
  });
}
template <typename T>
REPRISE_DEVICE void swigluoai_and_mul(const SwigluoaiAndMulArguments& a) {
  combine_halves<T>(a, [&](float gate, float up) {
    // The comparisons keep a NaN.
    const float g = gate > a.limit ? a.limit : gate;
    const float most = up > a.limit ? a.limit : up;
    const float u = most < -a.limit ? -a.limit : most;
    return (u + 1.0F) * (g / (1.0F + exponential(g * -kSwigluoaiAlpha)));
  });
}

/// x * function(gate).
template <typename T>
REPRISE_DEVICE void mul_gate(const MulGateArguments& a) {
  const bool is_silu = a.function == OpFunction::silu;
  combine_rows(a.tiles,
               static_cast<const T*>(a.x),
               a.x_layout,
               static_cast<const T*>(a.gate),
               a.gate_layout,
               static_cast<T*>(a.out),
               [&](float x, float gate) { return x * (is_silu ? silu(gate) : sigmoid(gate)); });
}

/// One gate for each row.
template <typename T>
REPRISE_DEVICE void sigmoid_gate(const SigmoidGateArguments& a) {
  for_each_tile_columns(a.tiles, [&](int64_t row, int64_t column, int64_t count) {
    float values[kColumns];
    load_columns(static_cast<const T*>(a.x) + row_offset(a.x_layout, row) + column, count, values);
    const float factor =
        sigmoid(as_float(static_cast<const T*>(a.gate)[row_offset(a.gate_layout, row)]));
    for (float& value : values) value *= factor;
    store_columns(static_cast<T*>(a.out) + row * a.tiles.width + column, count, values);
  });
}

}  // namespace reprise::kernels::cuda
