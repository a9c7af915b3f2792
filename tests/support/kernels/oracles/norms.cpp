#include "tests/support/kernels/oracles/norms.h"

#include <algorithm>
#include <cmath>

#include "tests/support/kernels/oracles/rows.h"
#include "tests/support/kernels/reference.h"

namespace reprise::kernels {
void rms_norm_ref(
    const Tensor& x, const Tensor& weight, float epsilon, const Tensor& out, double origin) {
  const int64_t width = x.size(-1);
  for (const RowIndex& row : all_rows(x)) {
    double sum = 0;
    for (int64_t i = 0; i < width; ++i) sum += std::pow(row_element(x, row, i), 2);
    const double scale = 1.0 / std::sqrt(sum / static_cast<double>(width) + epsilon);
    for (int64_t i = 0; i < width; ++i) {
      set_row_element(out, row_element(x, row, i) * scale * (origin + element(weight, i)), row, i);
    }
  }
}

void fused_add_rms_norm_ref(const Tensor& x,
                            const Tensor& residual,
                            const Tensor& weight,
                            float epsilon,
                            const Tensor& normed,
                            const Tensor& sum) {
  add_ref(residual, x, sum);
  rms_norm_ref(sum, weight, epsilon, normed);
}

void gemma_rms_norm_ref(const Tensor& x, const Tensor& weight, float epsilon, const Tensor& out) {
  rms_norm_ref(x, weight, epsilon, out, 1.0);
}

void group_norm_ref(OpFunction function,
                    const Tensor& x,
                    const Tensor& weight,
                    const Tensor& out,
                    float epsilon,
                    int64_t groups) {
  const int64_t size = x.size(1) / groups;
  for (int64_t row = 0; row < x.size(0); ++row) {
    for (int64_t first = 0; first < x.size(1); first += size) {
      double mean = 0;
      for (int64_t i = first; i < first + size; ++i) mean += element(x, row, i);
      mean /= static_cast<double>(size);
      if (function == OpFunction::rms_norm) mean = 0;
      double variance = 0;
      for (int64_t i = first; i < first + size; ++i) {
        variance += std::pow(element(x, row, i) - mean, 2) / static_cast<double>(size);
      }
      const double scale = 1 / std::sqrt(variance + epsilon);
      for (int64_t i = first; i < first + size; ++i) {
        set_element(out, (element(x, row, i) - mean) * scale * element(weight, i), row, i);
      }
    }
  }
}

void layer_norm_ref(
    const Tensor& x, const Tensor& weight, const Tensor& bias, float epsilon, const Tensor& out) {
  const int64_t width = x.size(-1);
  for (const RowIndex& row : all_rows(x)) {
    double mean = 0;
    for (int64_t i = 0; i < width; ++i) mean += row_element(x, row, i);
    mean /= static_cast<double>(width);
    double variance = 0;
    for (int64_t i = 0; i < width; ++i) variance += std::pow(row_element(x, row, i) - mean, 2);
    const double scale = 1.0 / std::sqrt(variance / static_cast<double>(width) + epsilon);
    for (int64_t i = 0; i < width; ++i) {
      const double shift = bias.defined() ? element(bias, i) : 0.0;
      const double normed = (row_element(x, row, i) - mean) * scale;
      set_row_element(out, normed * element(weight, i) + shift, row, i);
    }
  }
}

}  // namespace reprise::kernels
