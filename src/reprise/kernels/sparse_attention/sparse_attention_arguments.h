#pragma once

#include <cstdint>

namespace reprise::kernels {

/// Arguments of attention over the positions that a token chooses. Block b takes up to
/// kSparseHeads heads of token b / blocks_per_token.
struct alignas(16) SparseAttentionArguments {
  const void* q;                   // [num_tokens, heads, head_dim]
  const void* kv_cache;            // rows of the positions, dense: latent, rotated key, index key
  const void* index_q;             // [num_tokens, index_heads, index_dim]
  const void* index_weights;       // [num_tokens, index_heads]
  void* out;                       // [num_tokens, heads, value_dim], dense
  const int32_t* query_start_loc;  // [num_reqs + 1]
  const int32_t* seq_lens;         // [num_reqs]
  const int32_t* block_table;      // consecutive rows are block_table_stride apart
  int64_t q_token_stride;          // elements, as all strides
  int64_t q_head_stride;
  int64_t index_q_token_stride;
  int64_t index_q_head_stride;
  int64_t index_weights_stride;
  int64_t block_table_stride;
  int64_t num_tokens;
  int64_t num_reqs;
  int64_t heads;
  int64_t blocks_per_token;
  int64_t head_dim;   // of queries, and of the key in a row of the cache
  int64_t value_dim;  // the value is the first elements of that key
  int64_t index_heads;
  int64_t index_dim;
  int64_t block_size;
  int64_t top_k;
  float scale;
};

/// The chosen positions are on the kernel's stack; published models choose 2048.
inline constexpr int64_t kMaxSparsePositions = 2048;
/// Published models have 32 and 64.
inline constexpr int64_t kMaxIndexHeads = 128;
/// The heads of a block share the choice of positions.
inline constexpr int64_t kSparseHeads = 8;
/// The limit for value_dim: its sums are on the stack.
inline constexpr int64_t kMaxSparseValueDim = 512;

}  // namespace reprise::kernels
