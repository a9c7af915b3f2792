#pragma once

#include <cstdint>

#include "reprise/kernels/rows.h"

namespace reprise::kernels {

struct alignas(16) TopKSoftmaxArguments {
  const void* logits;  // rows of num_experts elements, in layout
  float* weights;      // [rows, top_k], dense
  int32_t* experts;    // like weights
  RowLayout layout;
  RowTiles tiles;  // of logits
  int64_t top_k;
};

/// The limit of the kernel, which keeps a row on the stack. Published models have up to 512.
inline constexpr int kMaxExperts = 1024;

}  // namespace reprise::kernels
