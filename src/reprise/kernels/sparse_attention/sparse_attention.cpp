#include "reprise/kernels/sparse_attention/sparse_attention.h"

#include <fmt/format.h>

#include <array>

#include "reprise/base/assert.h"
#include "reprise/base/error.h"
#include "reprise/kernels/launch.h"
#include "reprise/kernels/sparse_attention/sparse_attention_arguments.h"

namespace reprise::kernels {
namespace {

void require_at_most(const char* what, int64_t size, int64_t most) {
  if (size <= most) return;
  throw InvalidArgument(fmt::format(
      "sparse attention: {} {} are more than the {} that the kernels support", size, what, most));
}

}  // namespace

bool launch_sparse_attention(device::Stream& stream,
                             const KernelTable& kernels,
                             const SparseAttentionCall& call) {
  require_at_most("chosen positions", call.top_k, kMaxSparsePositions);
  require_at_most("heads of the indexer", call.index_q.size(1), kMaxIndexHeads);
  require_at_most("elements of a latent", call.out.size(2), kMaxSparseValueDim);
  for (const Tensor* rows : {&call.q, &call.index_q, &call.index_weights, &call.block_table}) {
    require_dense_rows(*rows, "sparse attention");
  }
  REPRISE_ASSERT(
      call.kv_cache.is_dense() && call.out.is_dense() && call.top_k > 0,
      "sparse attention: cache and out must be dense, and top_k must be positive, got {}",
      call.top_k);
  const SparseAttentionArguments arguments = {
      .q = call.q.data(),
      .kv_cache = call.kv_cache.data(),
      .index_q = call.index_q.data(),
      .index_weights = call.index_weights.data(),
      .out = call.out.data(),
      .query_start_loc = call.query_start_loc.data_as<int32_t>(),
      .seq_lens = call.seq_lens.data_as<int32_t>(),
      .block_table = call.block_table.data_as<int32_t>(),
      .q_token_stride = call.q.stride(0),
      .q_head_stride = call.q.stride(1),
      .index_q_token_stride = call.index_q.stride(0),
      .index_q_head_stride = call.index_q.stride(1),
      .index_weights_stride = call.index_weights.stride(0),
      .block_table_stride = call.block_table.stride(0),
      .num_tokens = call.q.size(0),
      .num_reqs = call.seq_lens.size(0),
      .heads = call.q.size(1),
      .blocks_per_token = ceil_div(call.q.size(1), kSparseHeads),
      .head_dim = call.q.size(2),
      .value_dim = call.out.size(2),
      .index_heads = call.index_q.size(1),
      .index_dim = call.index_q.size(2),
      .block_size = call.kv_cache.size(2),
      .top_k = call.top_k,
      .scale = call.scale,
  };
  return launch(stream,
                kernel_for(kernels.sparse_attention, call.q.dtype()),
                static_cast<uint32_t>(arguments.num_tokens * arguments.blocks_per_token),
                arguments,
                std::array{writes(call.out),
                           reads(call.q),
                           reads(call.kv_cache),
                           reads(call.index_q),
                           reads(call.index_weights),
                           reads(call.query_start_loc),
                           reads(call.seq_lens),
                           reads(call.block_table)});
}

}  // namespace reprise::kernels
