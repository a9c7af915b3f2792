#pragma once

#include <cstdint>

#include "reprise/kernels/kv_write/kv_write_arguments.h"

namespace reprise::kernels {

/// Element type of the result: the type of q, or eight bits with a static scale.
enum class AttentionOut : int32_t { like_q, i8, f8e4m3 };

struct alignas(16) AttentionKernelArguments {
  const void* q;            // [num_tokens, heads, head_dim]
  const void* key_cache;    // [num_blocks, kv_heads, block_size, head_dim], dense
  const void* value_cache;  // like key_cache
  void* out;                // [num_tokens, heads, value_dim]
  const void* sinks;        // [heads], of the type of q; nullptr = none
  const float* biases;      // [heads, num_biases], by position; nullptr = none
  int64_t num_biases;
  const float* out_scale;          // nullptr if out has the type of q
  const int32_t* query_start_loc;  // [num_reqs + 1]
  const int32_t* seq_lens;         // [num_reqs]
  const int32_t* block_table;      // consecutive rows are block_table_stride apart
  int64_t q_token_stride;          // elements
  int64_t q_head_stride;
  int64_t out_token_stride;
  int64_t out_head_stride;
  int64_t block_table_stride;
  int64_t num_tokens;
  int64_t num_reqs;
  // The caches' rows of position p of head n begin at block * block_stride + n * kv_head_stride +
  // p % block_size * head_dim, in elements, in both caches.
  int64_t block_stride;
  int64_t kv_head_stride;  // 0 if the heads share their rows
  int64_t kv_heads;
  int64_t group_size;  // query heads per key/value head
  int64_t head_dim;    // of queries and keys
  int64_t value_dim;   // of values and results; at most head_dim and kMaxAttentionHeadDim
  int64_t block_size;
  int64_t sliding_window;    // 0 = none
  int64_t chunk_size;        // of positions, of which a token sees its own; 0 = none
  int64_t tokens_per_block;  // read by the kernel for any batch
  int64_t query_len;         // read by the uniform kernel: tokens of every request
  float scale;
  float soft_cap;            // 0 = none
  int32_t is_bidirectional;  // 1: a token sees positions behind its own too
  AttentionOut out_type;
  CacheRows cache = {};
  /// Positions whose part of the softmax is known already: a multiple of 32, which every token sees
  /// and no window cuts. 0 = none.
  int64_t shared_prefix_len = 0;
  /// [num_tokens, heads, 2, value_dim + 2]: sums, largest score and total weight. The first are
  /// those after the complete segments of these positions, the second those of the last segment if
  /// it is not complete.
  const float* prefix_states = nullptr;
};

/// Arguments of the kernel that computes the states after a shared prefix. Block b takes
/// `tokens_per_block` tokens of one key/value head, of whatever requests.
struct alignas(16) SharedPrefixArguments {
  AttentionKernelArguments call;  // without states
  float* states;                  // see AttentionKernelArguments::prefix_states
  int64_t prefix_len;
  int64_t tokens_per_block;
};

/// Arguments of the kernel that divides long contexts among blocks. A job is `tokens_per_job`
/// tokens from a multiple of it on, which belong to one request. The grid is a measure: block b
/// takes a `grid_size`-th of the positions of all jobs.
struct alignas(16) SplitAttentionArguments {
  AttentionKernelArguments call;  // without a shared prefix
  float* sums;                    // [most_parts, tokens_per_job, heads, value_dim + 2]
  int32_t* counters;              // [most_parts, kv_heads], zeros before and after
  int64_t most_parts;
  int64_t tokens_per_job;
  int64_t grid_size;
};

/// Arguments of the planned kernels. Their grids are fixed: `plan` gives any number of items, and
/// block b takes the items b, b + grid_size, b + 2 * grid_size and so on.
struct alignas(16) PlannedAttentionArguments {
  AttentionKernelArguments call;
  const int32_t* plan;  // an AttentionPlanHeader, then the requests
  float* partials;      // [parts, heads, value_dim + 2]: sums, largest score, total weight
  int64_t grid_size;
};

/// The limit of the kernel, which keeps kMaxAttentionRows x value_dim float32 sums on the stack.
inline constexpr int kMaxAttentionHeadDim = 512;
/// The limit of the kernels for the size of queries and keys, for the same reason.
inline constexpr int kMaxAttentionKeyDim = 640;
/// Query rows (tokens x heads of one group) that share the loads of keys and values.
inline constexpr int kMaxAttentionRows = 32;

}  // namespace reprise::kernels
