#pragma once

#include "reprise/kernels/cuda/attention_kernels.cuh"
#include "reprise/kernels/cuda/prefill_rows.cuh"
#include "reprise/kernels/cuda/prefill_stream.cuh"

// Attention for requests with many tokens: a block computes 128 rows, each warp 32 of them, over
// tiles of keys and values that pass through shared memory. See attention_tile.cuh for rows and
// attention_kernels.cuh for parts. Source: Dao, FlashAttention-2 (arXiv 2307.08691), sections 3.1
// and 3.3; differs in that the heads of a group are rows of one tile, and that keys and values
// alternate in one ring.
namespace reprise::kernels::cuda {

/// A block processes the tile's positions. It stores the tile's results, or, if has_parts, writes
/// the partial results to find_part(): [rows][kHeadDim + 2] floats.
template <typename T, int kHeadDim, typename FindPart>
REPRISE_DEVICE void attend_prefill_tile(const CudaAttentionArguments& arguments,
                                        const PrefillTile& tile,
                                        bool has_parts,
                                        const FindPart& find_part) {
  using Rows = SharedRows<kHeadDim>;
  const AttentionKernelArguments& a = arguments.call;
  const Rows queries{shared_memory()};
  REPRISE_UNROLL
  for (int first = 0; first < kPrefillTileRows; first += kCopyRows) {
    const int row = first + thread_index() / kCopyLanes;
    const int lane = thread_index() % kCopyLanes;
    const bool there = row < tile.num_rows;
    const T* from = static_cast<const T*>(a.q) +
                    (there ? tile.element_of(a, row, a.q_token_stride, a.q_head_stride) : 0);
    REPRISE_UNROLL
    for (int chunk = 0; chunk < Rows::kChunks; chunk += kCopyLanes) {
      copy_words_async(queries.chunk(row, chunk + lane), from + (chunk + lane) * 8, there);
    }
  }
  PrefillStream<T, kHeadDim> stream(arguments, tile);
  PrefillRows<T, kHeadDim> rows(a, tile);
  for (int first = tile.begin; first < tile.end; first += prefill_positions(kHeadDim)) {
    const bool sees = rows.sees(first);
    const Rows keys = stream.take_keys(first);
    if (sees) rows.score(queries, keys, first);
    const Rows values = stream.take_values(first);
    if (sees) rows.add(values);
  }
  rows.finish();
  wait_for_copies<0>();
  if (has_parts) {
    rows.leave_part(find_part());
    return;
  }
  // Results pass through the queries' shared memory, so that a row is stored in pieces of sixteen
  // bytes.
  sync_block();
  rows.leave_results(queries);
  sync_warp();
  for (int i = lane_index(); i < kPrefillWarpRows * Rows::kChunks; i += kWarpSize) {
    const int row = warp_index() * kPrefillWarpRows + i / Rows::kChunks;
    if (row >= tile.num_rows) break;
    const int chunk = i % Rows::kChunks;
    T* out =
        static_cast<T*>(a.out) + tile.element_of(a, row, a.out_token_stride, a.out_head_stride);
    store_words(out + chunk * 8, load_words(queries.chunk(row, chunk)));
  }
}

/// The work of a block.
struct PrefillShare {
  AttentionTile tile;
  int kv_head;
  int item;  // tile and head
  int part;
  int num_parts;
  int64_t begin;  // positions
  int64_t end;
};

template <int kHeadDim>
REPRISE_DEVICE PrefillShare prefill_share(const CudaAttentionArguments& arguments, int block) {
  constexpr int kPositions = prefill_positions(kHeadDim);
  const AttentionKernelArguments& a = arguments.call;
  const auto max_parts = static_cast<int>(arguments.max_parts);
  const auto kv_heads = static_cast<int>(a.kv_heads);
  const int part = block % max_parts;
  const int kv_head = block / max_parts % kv_heads;
  // The last tile of a prompt sees the most positions, so it starts first.
  const int tile_index = static_cast<int>(arguments.max_tiles) - 1 - block / max_parts / kv_heads;
  const AttentionTile tile = find_tile(arguments, tile_index, kPrefillTileRows);
  const int item = tile_index * kv_heads + kv_head;
  if (tile.num_rows == 0) return {tile, kv_head, item, 0, 0, 0, 0};

  const AttentionPositions positions = positions_of(a, tile);
  const int64_t count = positions.end - positions.begin;
  const int64_t num_parts = max_of(1, min_of(max_parts, ceil_div(count, kLeastPrefillPart)));
  const int64_t per_part = ceil_div(ceil_div(count, num_parts), kPositions) * kPositions;
  const int64_t begin = positions.begin + part * per_part;
  return {tile,
          kv_head,
          item,
          part,
          static_cast<int>(num_parts),
          begin,
          min_of(begin + per_part, positions.end)};
}

/// The same contract as attention_fragments. \pre q and out are aligned to 16 bytes and so are
/// their strides, block_size is 2 to the power of block_bits, scale > 0
template <typename T, int kHeadDim>
REPRISE_DEVICE void prefill_attention(const CudaAttentionArguments& arguments) {
  const AttentionKernelArguments& a = arguments.call;
  zero_padding<T>(a, a.query_start_loc[a.num_reqs]);
  const auto block = static_cast<int>(block_index());
  const PrefillShare share = prefill_share<kHeadDim>(arguments, block);
  if (share.part >= share.num_parts) return;
  constexpr int kPartSize = kPrefillTileRows * (kHeadDim + 2);
  const auto parts_of = [&](const PrefillShare& s) {
    return arguments.partials + s.item * arguments.max_parts * kPartSize;
  };
  const PrefillTile tile = {static_cast<int>(share.tile.r.request),
                            share.kv_head,
                            static_cast<int>(context_of(share.tile.r, 0)),
                            static_cast<int>(share.tile.first_row),
                            static_cast<int>(share.tile.num_rows),
                            static_cast<int>(share.begin),
                            static_cast<int>(share.end)};
  const bool has_parts = share.num_parts > 1;
  attend_prefill_tile<T, kHeadDim>(arguments, tile, has_parts, [&] {
    const PrefillShare s = prefill_share<kHeadDim>(arguments, same_again(block));
    return parts_of(s) + s.part * kPartSize;
  });
  if (has_parts) {
    const PrefillShare s = prefill_share<kHeadDim>(arguments, same_again(block));
    merge_when_last<T, kHeadDim>(
        a, s.tile, s.kv_head, s.num_parts, parts_of(s), kPartSize, arguments.arrived + s.item);
  }
}

}  // namespace reprise::kernels::cuda
