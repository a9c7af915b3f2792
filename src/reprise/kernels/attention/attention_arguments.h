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
  // The row of position p and head n begins, in both caches, at element block * block_stride + n *
  // kv_head_stride + p % block_size * head_dim.
  int64_t block_stride;
  int64_t kv_head_stride;  // 0 if the heads share their rows
  int64_t kv_heads;
  int64_t group_size;  // query heads per key/value head
  int64_t head_dim;    // of queries and keys
  int64_t value_dim;   // of values and results; at most head_dim and kMaxAttentionHeadDim
  int64_t block_size;
  int64_t sliding_window;  // 0 = none
  // The number of positions in a chunk; a token sees those of its own chunk; 0 = none.
  int64_t chunk_size;
  int64_t tokens_per_block;  // read by the kernel for any batch
  int64_t query_len;         // read by the uniform kernel: tokens of every request
  float scale;
  float soft_cap;            // 0 = none
  int32_t is_bidirectional;  // 1: a token also sees positions after its own
  AttentionOut out_type;
  CacheRows cache = {};
  /// The number of leading positions whose part of the softmax is already computed: a multiple of
  /// 32. Every token sees these positions, and no window cuts them. 0 = none.
  int64_t shared_prefix_len = 0;
  /// [num_tokens, heads, 2, value_dim + 2]: sums, largest score and total weight. Entry 0 is the
  /// state after the complete segments of the prefix, entry 1 that of its last segment if this
  /// segment is not complete.
  const float* prefix_states = nullptr;
};

/// Arguments of the kernel that computes the states after a shared prefix. Block b computes
/// `tokens_per_block` tokens of any requests, for one key/value head.
struct alignas(16) SharedPrefixArguments {
  AttentionKernelArguments call;  // without states
  float* states;                  // see AttentionKernelArguments::prefix_states
  int64_t prefix_len;
  int64_t tokens_per_block;
};

/// Arguments of the kernel that divides long contexts among blocks. A job has up to
/// `tokens_per_job` tokens, which belong to one request and begin at a multiple of tokens_per_job.
/// Block b computes one of `grid_size` equal shares of the positions of all jobs.
struct alignas(16) SplitAttentionArguments {
  AttentionKernelArguments call;  // without a shared prefix
  float* sums;                    // [most_parts, tokens_per_job, heads, value_dim + 2]
  int32_t* counters;              // [most_parts, kv_heads], zeros before and after
  int64_t most_parts;
  int64_t tokens_per_job;
  int64_t grid_size;
};

/// Arguments of the planned kernels. The grid is fixed, and `plan` gives the number of items: block
/// b computes the items b, b + grid_size, b + 2 * grid_size and so on.
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
/// Query rows (tokens x heads of one group) that share the loads of keys and values, in every
/// kernel.
inline constexpr int kMaxAttentionRows = 32;
/// The most rows that a block of a prompt has. Some kernels share loads among so many.
inline constexpr int kMostAttentionRows = 256;

}  // namespace reprise::kernels
