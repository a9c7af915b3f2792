#include "tests/support/kernels/oracles/rows.h"

#include <algorithm>
#include <cmath>

#include "reprise/kernels/quantize/quantize_arguments.h"
#include "tests/support/kernels/reference.h"

namespace reprise::kernels {
namespace {

double largest_of(DType dtype) { return dtype == DType::i8 ? 127.0 : 448.0; }

void rope_side_ref(const Tensor& x,
                   const Tensor& positions,
                   const Tensor& cos_sin,
                   const Tensor& out) {
  const int64_t half = x.size(2) / 2;
  for (int64_t token = 0; token < x.size(0); ++token) {
    const int64_t position = int_element(positions, token);
    for (int64_t head = 0; head < x.size(1); ++head) {
      for (int64_t i = 0; i < half; ++i) {
        const double x1 = element(x, token, head, i);
        const double x2 = element(x, token, head, half + i);
        const double cosine = element(cos_sin, position, i);
        const double sine = element(cos_sin, position, half + i);
        set_element(out, x1 * cosine - x2 * sine, token, head, i);
        set_element(out, x2 * cosine + x1 * sine, token, head, half + i);
      }
    }
  }
}

}  // namespace

void add_ref(const Tensor& a, const Tensor& b, const Tensor& out) {
  for (const RowIndex& row : all_rows(out)) {
    for (int64_t i = 0; i < out.size(-1); ++i) {
      set_row_element(out, row_element(a, row, i) + row_element(b, row, i), row, i);
    }
  }
}

void concat_ref(const Tensor& a, const Tensor& b, const Tensor& out) {
  const int64_t a_width = a.size(2);
  for (int64_t token = 0; token < out.size(0); ++token) {
    for (int64_t head = 0; head < out.size(1); ++head) {
      for (int64_t i = 0; i < out.size(2); ++i) {
        const double value =
            i < a_width ? element(a, token, head, i) : element(b, token, head, i - a_width);
        set_element(out, value, token, head, i);
      }
    }
  }
}

void gather_rows_ref(const Tensor& x, const Tensor& indices, const Tensor& out) {
  for (int64_t row = 0; row < out.size(0); ++row) {
    const int64_t index = int_element(indices, row);
    const bool is_inside = index >= 0 && index < x.size(0);
    for (int64_t i = 0; i < out.size(1); ++i) {
      set_element(out, is_inside ? element(x, index, i) : 0.0, row, i);
    }
  }
}

void pool_rows_ref(OpFunction function,
                   const Tensor& x,
                   const Tensor& ends,
                   const Tensor& num_rows,
                   const Tensor& out) {
  for (int64_t row = 0; row < out.size(0); ++row) {
    int64_t first = row == 0 ? 0 : int_element(ends, row - 1) + 1;
    int64_t last = int_element(ends, row);
    if (function == OpFunction::last) first = last;
    if (function == OpFunction::cls) last = first;
    for (int64_t i = 0; i < out.size(1); ++i) {
      double total = 0;
      for (int64_t from = first; from <= last; ++from) total += element(x, from, i);
      const bool counts = row < int_element(num_rows, 0);
      set_element(out, counts ? total / static_cast<double>(last - first + 1) : 0.0, row, i);
    }
  }
}

void rope_ref(const Tensor& q,
              const Tensor& k,
              const Tensor& positions,
              const Tensor& cos_sin,
              const Tensor& q_out,
              const Tensor& k_out) {
  rope_side_ref(q, positions, cos_sin, q_out);
  rope_side_ref(k, positions, cos_sin, k_out);
}

void quantize_per_token_ref(const Tensor& x, const Tensor& q, const Tensor& scales) {
  for (int64_t row = 0; row < x.size(0); ++row) {
    float largest = kSmallestQuantizedMagnitude;
    for (int64_t i = 0; i < x.size(1); ++i) {
      const auto magnitude = static_cast<float>(std::abs(element(x, row, i)));
      if (std::isnan(largest)) break;
      largest = std::isnan(magnitude) ? magnitude : std::max(largest, magnitude);
    }
    const float scale = largest / static_cast<float>(largest_of(q.dtype()));
    set_element(scales, scale, row);
    for (int64_t i = 0; i < x.size(1); ++i) {
      set_element(q, static_cast<float>(element(x, row, i)) / scale, row, i);
    }
  }
}

void quantize_static_ref(const Tensor& x, const Tensor& scale, const Tensor& q) {
  const auto divisor = static_cast<float>(element(scale, 0));
  for (const RowIndex& row : all_rows(x)) {
    for (int64_t i = 0; i < x.size(-1); ++i) {
      set_row_element(q, static_cast<float>(row_element(x, row, i)) / divisor, row, i);
    }
  }
}

}  // namespace reprise::kernels
