#pragma once

#include <cstdint>

namespace reprise::kernels {

/// The requests of the tokens of a step, and the slots in which these requests keep their states.
struct StateArguments {
  float* state;                    // [num_slots, ...], dense
  const int32_t* state_indices;    // [num_reqs, slots_per_req]
  const int32_t* query_start_loc;  // [num_reqs + 1]
  const int32_t* seq_lens;         // [num_reqs]
  int64_t num_tokens;
  int64_t num_reqs;
  int64_t num_slots;
  int64_t slots_per_req;
  /// On GPUs: whether an earlier launch has computed the tokens of prompts in chunks, except a last
  /// token that makes a chunk of its own.
  int64_t has_chunks;
};

/// The longest convolution; published models convolve 4 tokens.
inline constexpr int64_t kMaxConvKernel = 16;

struct alignas(16) CausalConv1dArguments {
  const void* x;          // [num_tokens, channels]
  const void* weight;     // [channels, 1, kernel], dense
  const void* bias;       // [channels], or nullptr
  StateArguments states;  // [num_slots, kernel - 1, channels]
  void* out;              // [num_tokens, channels], dense
  int64_t x_stride;       // elements
  int64_t channels;
  int64_t kernel;
  int64_t channels_per_block;
  /// On GPUs: tokens of the batch that blocks behind those of requests compute; 0: there are none.
  int64_t tokens_per_tile;
};

}  // namespace reprise::kernels
