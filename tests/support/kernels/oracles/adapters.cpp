#include "tests/support/kernels/oracles/adapters.h"

#include <algorithm>
#include <cmath>

#include "tests/support/kernels/reference.h"

namespace reprise::kernels {
void lora_shrink_ref(const Tensor& x, const Tensor& a, const Tensor& slots, const Tensor& out) {
  for (int64_t row = 0; row < out.size(0); ++row) {
    const int64_t slot = int_element(slots, row);
    for (int64_t column = 0; column < out.size(1); ++column) {
      double sum = 0;
      for (int64_t i = 0; slot >= 0 && i < x.size(1); ++i) {
        sum += element(x, row, i) * element(a, slot, column, i);
      }
      set_element(out, sum, row, column);
    }
  }
}

void lora_expand_ref(const Tensor& y,
                     const Tensor& shrunk,
                     const Tensor& b,
                     const Tensor& ends,
                     const Tensor& slots,
                     const Tensor& out) {
  const int64_t rank = b.size(1);
  for (int64_t row = 0; row < out.size(0); ++row) {
    const int64_t slot = int_element(slots, row);
    int64_t module = 0;
    for (int64_t column = 0; column < out.size(1); ++column) {
      while (module + 1 < ends.size(0) && column >= int_element(ends, module)) ++module;
      double sum = element(y, row, column);
      for (int64_t j = 0; slot >= 0 && j < rank; ++j) {
        sum += element(shrunk, row, module * rank + j) * element(b, slot, j, column);
      }
      set_element(out, sum, row, column);
    }
  }
}

}  // namespace reprise::kernels
