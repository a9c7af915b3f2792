#pragma once

#include <cstdint>

namespace reprise::kernels {

struct alignas(16) GatedDeltaRuleArguments {
  const void* q;                   // [num_tokens, groups * key_dim]
  const void* k;                   // likewise
  const void* v;                   // [num_tokens, heads * value_dim]
  const void* beta;                // [num_tokens, heads]
  const void* dt;                  // likewise
  const float* a_log;              // [heads]
  const float* dt_bias;            // [heads]
  float* state;                    // [num_slots, heads, key_dim, value_dim], dense
  const int32_t* state_indices;    // [num_reqs]
  const int32_t* query_start_loc;  // [num_reqs + 1]
  const int32_t* seq_lens;         // [num_reqs]
  void* out;                       // [num_tokens, heads * value_dim], dense
  int64_t q_stride;                // elements
  int64_t k_stride;
  int64_t v_stride;
  int64_t beta_stride;
  int64_t dt_stride;
  int64_t num_tokens;
  int64_t num_reqs;
  int64_t heads;
  int64_t key_dim;
  int64_t value_dim;
  int64_t groups;
  int64_t neighbours;  // heads that lie next to each other and share q and k
  int64_t num_slots;
};

}  // namespace reprise::kernels
