#include "tests/support/kernels/oracles/activations.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "reprise/kernels/swigluoai_and_mul/swigluoai_and_mul_arguments.h"
#include "tests/support/kernels/reference.h"

namespace reprise::kernels {
double gelu_ref(double x) { return 0.5 * x * std::erfc(-x / std::numbers::sqrt2); }

double gelu_tanh_ref(double x) {
  const double inner = std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x);
  return 0.5 * x * (1.0 + std::tanh(inner));
}

void silu_and_mul_ref(const Tensor& x, const Tensor& out) {
  const int64_t width = out.size(1);
  for (int64_t row = 0; row < out.size(0); ++row) {
    for (int64_t i = 0; i < width; ++i) {
      const double gate = element(x, row, i);
      set_element(out, gate / (1.0 + std::exp(-gate)) * element(x, row, width + i), row, i);
    }
  }
}

void swigluoai_and_mul_ref(const Tensor& x, float limit, const Tensor& out) {
  const double most = limit;
  for (int64_t row = 0; row < out.size(0); ++row) {
    for (int64_t i = 0; i < out.size(1); ++i) {
      const double gate = std::min(element(x, row, i), most);
      const double up = std::clamp(element(x, row, out.size(1) + i), -most, most);
      const double alpha = kSwigluoaiAlpha;
      set_element(out, (up + 1) * gate / (1 + std::exp(-alpha * gate)), row, i);
    }
  }
}

void mul_gate_ref(OpFunction function, const Tensor& x, const Tensor& gate, const Tensor& out) {
  for (const RowIndex& row : all_rows(x)) {
    for (int64_t i = 0; i < x.size(x.rank() - 1); ++i) {
      const double g = row_element(gate, row, i);
      const double sigmoid = 1.0 / (1.0 + std::exp(-g));
      const double factor = function == OpFunction::silu ? g * sigmoid : sigmoid;
      set_row_element(out, row_element(x, row, i) * factor, row, i);
    }
  }
}

void sigmoid_gate_ref(const Tensor& x, const Tensor& gate, const Tensor& out) {
  for (const RowIndex& row : all_rows(x)) {
    const double factor = 1.0 / (1.0 + std::exp(-row_element(gate, row, 0)));
    for (int64_t i = 0; i < x.size(-1); ++i) {
      set_row_element(out, row_element(x, row, i) * factor, row, i);
    }
  }
}

}  // namespace reprise::kernels
