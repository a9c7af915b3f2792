#pragma once

#include <cstdint>

namespace reprise::kernels {

/// out[i] = exp(x[i]). Not an op: it lets tests measure the exp that attention and silu use.
struct alignas(16) ExpArguments {
  const float* x;
  float* out;
  int64_t size;
};

}  // namespace reprise::kernels
