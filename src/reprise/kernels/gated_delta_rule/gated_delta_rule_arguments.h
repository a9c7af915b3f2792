#pragma once

#include <cstdint>

#include "reprise/kernels/causal_conv1d/causal_conv1d_arguments.h"

namespace reprise::kernels {

struct alignas(16) GatedDeltaRuleArguments {
  const void* q;          // [num_tokens, groups * key_dim]
  const void* k;          // likewise
  const void* v;          // [num_tokens, heads * value_dim]
  const void* beta;       // [num_tokens, heads]
  const void* dt;         // [num_tokens, heads * steps_per_head]
  const float* a_log;     // [heads]
  const float* dt_bias;   // [heads * steps_per_head]
  StateArguments states;  // [num_slots, heads, key_dim, value_dim]
  void* out;              // [num_tokens, heads * value_dim], dense
  int64_t q_stride;       // elements
  int64_t k_stride;
  int64_t v_stride;
  int64_t beta_stride;
  int64_t dt_stride;
  int64_t heads;
  int64_t key_dim;
  int64_t value_dim;
  int64_t groups;
  int64_t steps_per_head;  // 1; or key_dim if each element of a key has its own time step
  int64_t neighbours;      // heads that lie next to each other and share q and k
};

}  // namespace reprise::kernels
