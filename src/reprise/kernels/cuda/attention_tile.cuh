#pragma once

#include "reprise/kernels/cuda/attention_arguments.h"
#include "reprise/kernels/cuda/block.cuh"

// Which tokens, rows and positions a block works on. A row has the number token * group_size + head
// within one request and one kv head.
namespace reprise::kernels::cuda {

struct RequestTokens {
  int64_t request;
  int64_t first_token;  // in the batch
  int64_t num_tokens;
  int64_t seq_len;
};

REPRISE_DEVICE RequestTokens request_tokens(const AttentionKernelArguments& a, int64_t request) {
  const int64_t first = a.query_start_loc[request];
  const int64_t next = a.query_start_loc[request + 1];
  return {request, first, next - first, a.seq_lens[request]};
}

/// The same if every request has query_len tokens.
REPRISE_DEVICE RequestTokens uniform_request(const AttentionKernelArguments& a, int64_t request) {
  return {request, request * a.query_len, a.query_len, a.seq_lens[request]};
}

/// The positions that token `token` of the request sees are [window_begin, context).
REPRISE_DEVICE int64_t context_of(const RequestTokens& r, int64_t token) {
  return r.seq_len - r.num_tokens + token + 1;
}
REPRISE_DEVICE int64_t window_begin_of(const AttentionKernelArguments& a, int64_t context) {
  if (a.chunk_size > 0) return max_of(0, context - 1) / a.chunk_size * a.chunk_size;
  return a.sliding_window > 0 ? max_of(0, context - a.sliding_window) : 0;
}

struct Divided {
  int64_t quotient;
  int64_t rest;
};
/// Divides numbers below 2^32. A division of 64 bits takes about 100 instructions on a GPU, and
/// these numbers are divided for each position.
REPRISE_DEVICE Divided divide(int64_t number, int64_t by) {
  const auto small = static_cast<uint32_t>(number);
  const uint32_t quotient = small / static_cast<uint32_t>(by);
  return {quotient, small - quotient * static_cast<uint32_t>(by)};
}

/// The row of one position of a request: its index in the cache of the keys and in that of the
/// values.
REPRISE_DEVICE int64_t cache_row_index(const AttentionKernelArguments& a,
                                       int64_t request,
                                       int64_t kv_head,
                                       int64_t position) {
  const Divided place = divide(position, a.block_size);
  const int64_t block = a.block_table[request * a.block_table_stride + place.quotient];
  return (block * a.kv_heads + kv_head) * a.block_size + place.rest;
}

/// A block's share of the work.
struct AttentionTile {
  RequestTokens r;
  int64_t first_row;  // index within the request
  int64_t num_rows;   // 0 = nothing to do
  bool shares_rows;   // all warps work on the same sixteen rows, each on a part of the positions
};

/// Whether the launch serves a request with so many tokens.
REPRISE_DEVICE bool serves(const CudaAttentionArguments& arguments, int64_t num_tokens) {
  if (arguments.served == ServedRequests::all) return true;
  const bool has_few_rows = num_tokens * arguments.call.group_size <= kAttentionWarpRows;
  return has_few_rows == (arguments.served == ServedRequests::of_few_rows);
}

REPRISE_DEVICE int64_t tiles_of(const CudaAttentionArguments& arguments,
                                int64_t request,
                                int64_t tile_rows) {
  const AttentionKernelArguments& a = arguments.call;
  const int64_t tokens = request_tokens(a, request).num_tokens;
  return serves(arguments, tokens) ? ceil_div(tokens * a.group_size, tile_rows) : 0;
}

/// Finds the index-th tile of the batch; all lanes of a warp work together.
REPRISE_DEVICE AttentionTile find_tile(const CudaAttentionArguments& arguments,
                                       int64_t index,
                                       int64_t tile_rows) {
  const AttentionKernelArguments& a = arguments.call;
  int64_t before = 0;
  for (int64_t base = 0; base < a.num_reqs; base += kWarpSize) {
    const int64_t mine = base + lane_index();
    const int count =
        mine < a.num_reqs ? static_cast<int>(tiles_of(arguments, mine, tile_rows)) : 0;
    // The chunk is found by its sum (exact, because the integers are small), then the request one
    // by one.
    const auto total = static_cast<int64_t>(warp_sum(static_cast<float>(count)));
    if (index >= before + total) {
      before += total;
      continue;
    }
    for (int lane = 0; lane < kWarpSize; ++lane) {
      const int tiles = shuffle_from(count, lane);
      if (index < before + tiles) {
        const RequestTokens r = request_tokens(a, base + lane);
        const int64_t rows = r.num_tokens * a.group_size;
        const int64_t first = (index - before) * tile_rows;
        return {r, first, min_of(tile_rows, rows - first), rows <= kAttentionWarpRows};
      }
      before += tiles;
    }
  }
  return {{0, 0, 0, 0}, 0, 0, false};
}

/// The positions that at least one row of a tile sees.
struct AttentionPositions {
  int64_t begin;
  int64_t end;
};

REPRISE_DEVICE AttentionPositions positions_of(const AttentionKernelArguments& a,
                                               const AttentionTile& tile) {
  const int64_t last_token = (tile.first_row + tile.num_rows - 1) / a.group_size;
  return {window_begin_of(a, max_of(0, context_of(tile.r, tile.first_row / a.group_size))),
          max_of(0, context_of(tile.r, last_token))};
}

/// Some of a tile's steps. The first part of a tile also has the scores of sinks.
struct TilePart {
  int64_t begin;
  int64_t end;
  bool is_first;
};

/// The same positions in steps of sixteen.
struct AttentionSteps {
  int64_t first;
  int64_t count;
};

REPRISE_DEVICE AttentionSteps steps_of(const AttentionKernelArguments& a,
                                       const AttentionTile& tile) {
  const AttentionPositions positions = positions_of(a, tile);
  const int64_t first = positions.begin / kAttentionWarpRows;
  return {first, max_of(0, ceil_div(positions.end, kAttentionWarpRows) - first)};
}

}  // namespace reprise::kernels::cuda
