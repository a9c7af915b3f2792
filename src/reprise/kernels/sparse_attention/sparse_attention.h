#pragma once

#include <cstdint>

#include "reprise/device/device.h"
#include "reprise/kernels/kernel_table.h"
#include "reprise/tensor/tensor.h"

namespace reprise::kernels {

/// The operands of mla_attention with an index.
struct SparseAttentionCall {
  const Tensor& q;                // [num_tokens, heads, head_dim]
  const Tensor& kv_cache;         // [num_blocks, 1, block_size, head_dim + index_dim]
  const Tensor& index_q;          // [num_tokens, index_heads, index_dim]
  const Tensor& index_weights;    // [num_tokens, index_heads]
  const Tensor& query_start_loc;  // int32[num_reqs + 1]
  const Tensor& seq_lens;         // int32[num_reqs]
  const Tensor& block_table;      // int32[>= num_reqs, max_blocks]
  const Tensor& out;              // [num_tokens, heads, value_dim]
  float scale = 1;
  int64_t top_k = 0;
};

/// Attention of each token over the top_k positions that the token chooses. The result of a token
/// does not depend on any other token of the step. \throws InvalidArgument if a size is larger than
/// the kernel's stack supports
bool launch_sparse_attention(device::Stream& stream,
                             const KernelTable& kernels,
                             const SparseAttentionCall& call);

}  // namespace reprise::kernels
