#pragma once

#include <cstdint>

#include "reprise/kernels/causal_conv1d/causal_conv1d_arguments.h"

namespace reprise::kernels {

/// The kernels keep values that the heads of a group share on their stack. Published models have up
/// to 256.
inline constexpr int64_t kMaxStateSize = 1024;

struct alignas(16) SelectiveStateUpdateArguments {
  const void* x;          // [num_tokens, heads * head_dim]
  const void* dt;         // [num_tokens, heads]
  const void* b;          // [num_tokens, groups * state_size]
  const void* c;          // likewise
  const float* a_log;     // [heads, decays], dense
  const float* d;         // [heads]
  const float* dt_bias;   // [heads]
  StateArguments states;  // [num_slots, heads, head_dim, state_size]
  void* out;              // [num_tokens, heads * head_dim], dense
  int64_t x_stride;       // elements
  int64_t dt_stride;
  int64_t b_stride;
  int64_t c_stride;
  int64_t heads;
  int64_t head_dim;
  int64_t state_size;
  int64_t heads_per_group;
  int64_t decays;  // 1, or state_size
  int64_t heads_per_block;
};

}  // namespace reprise::kernels
