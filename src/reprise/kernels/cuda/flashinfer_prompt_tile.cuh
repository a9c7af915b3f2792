#pragma once

#include "reprise/kernels/cuda/attention_tile.cuh"
#include "reprise/kernels/cuda/flashinfer_arguments.h"

namespace reprise::kernels::cuda {

/// The work of a block of FlashInfer's kernel for prompts: some tokens of a request, for one query
/// head.
struct PromptTile {
  RequestTokens r;
  int index;  // of the tile among those of the request
  int head;
  int num_tiles;  // of positions; 0: nothing to do
};

/// All lanes of a warp work together. The grid is max_tiles * heads.
template <int kHeadDim>
REPRISE_DEVICE PromptTile prompt_tile(const CudaAttentionArguments& arguments) {
  constexpr auto kTokens = static_cast<int>(FlashInferPrompts{kHeadDim}.tile_tokens());
  constexpr auto kPositions = static_cast<int>(FlashInferPrompts::kTilePositions);
  const AttentionKernelArguments& a = arguments.call;
  const auto heads = static_cast<int>(a.kv_heads * a.group_size);
  const auto block = static_cast<int>(block_index());
  // The last tile of a prompt sees the most positions, so it starts first.
  const int64_t index = arguments.max_tiles - 1 - block / heads;
  const AttentionTile tile = find_tile(arguments, index, kTokens * a.group_size);
  if (tile.num_rows == 0) return {tile.r, 0, 0, 0};
  const auto in_request = static_cast<int>(tile.first_row / (kTokens * a.group_size));
  const int64_t last_token = min_of(int64_t{in_request + 1} * kTokens, tile.r.num_tokens) - 1;
  const int64_t seen = max_of(0, context_of(tile.r, last_token));
  return {tile.r, in_request, block % heads, static_cast<int>(ceil_div(seen, int64_t{kPositions}))};
}

}  // namespace reprise::kernels::cuda
