#pragma once

#include <cstdint>

#include "reprise/kernels/rows.h"

namespace reprise::kernels {

struct alignas(16) GroupedTopKArguments {
  const void* logits;  // rows of num_experts elements, in layout; at most kMaxExperts
  const float* bias;   // [num_experts], nullptr: none, only for softmax
  float* weights;      // [rows, top_k], dense
  int32_t* experts;    // like weights
  RowLayout layout;
  RowTiles tiles;  // of logits
  int64_t top_k;
  int64_t groups;  // of neighbouring experts, all of one size
  int64_t top_groups;
  float scale;  // of the weights
};

}  // namespace reprise::kernels
