#pragma once

#include "reprise/kernels/cuda/attention_arguments.h"
#include "reprise/kernels/cuda/block.cuh"

// Attention over the paged cache. A row has the number token * group_size + head within one request
// and one kv head.
namespace reprise::kernels::cuda {

inline constexpr float kLowest = -1e30F;  // stands for minus infinity, and subtracts to 0
inline constexpr float kLog2E = 1.4426950408889634F;

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
  return a.sliding_window > 0 ? max_of(0, context - a.sliding_window) : 0;
}

/// The keys or values of one position of a request.
template <typename T>
REPRISE_DEVICE const T* cache_row(const AttentionKernelArguments& a,
                                  const void* cache,
                                  int64_t request,
                                  int64_t kv_head,
                                  int64_t position) {
  const int64_t block = a.block_table[request * a.block_table_stride + position / a.block_size];
  const int64_t row = (block * a.kv_heads + kv_head) * a.block_size + position % a.block_size;
  return static_cast<const T*>(cache) + row * a.head_dim;
}

/// The result of a warp for one head of one token: a lane holds elements lane + 32 j of the sums.
struct AttentionRow {
  static constexpr int kMost = kMaxAttentionHeadDim / kWarpSize;

  float sums[kMost];
  float largest;  // the largest score
  float total;
};

/// A warp handles the positions [begin, end) one after the other.
template <typename T>
REPRISE_DEVICE AttentionRow attend_row(const AttentionKernelArguments& a,
                                       int64_t request,
                                       int64_t token,
                                       int64_t head,
                                       int64_t begin,
                                       int64_t end) {
  const T* q = static_cast<const T*>(a.q) + token * a.q_token_stride + head * a.q_head_stride;
  AttentionRow row = {{}, kLowest, 0};
  for (int64_t position = begin; position < end; ++position) {
    const T* key = cache_row<T>(a, a.key_cache, request, head / a.group_size, position);
    const T* value = cache_row<T>(a, a.value_cache, request, head / a.group_size, position);
    float score = 0;
    for (int64_t i = lane_index(); i < a.head_dim; i += kWarpSize) {
      score = multiply_add(as_float(q[i]), as_float(key[i]), score);
    }
    score = warp_sum(score) * a.scale;
    const float maximum = score > row.largest ? score : row.largest;
    const float correction = exponential(row.largest - maximum);
    const float weight = exponential(score - maximum);
    row.largest = maximum;
    row.total = row.total * correction + weight;
    REPRISE_UNROLL
    for (int j = 0; j < AttentionRow::kMost; ++j) {
      const int64_t i = lane_index() + j * kWarpSize;
      if (i < a.head_dim) {
        row.sums[j] = multiply_add(weight, as_float(value[i]), row.sums[j] * correction);
      }
    }
  }
  return row;
}

template <typename T>
REPRISE_DEVICE void store_row(const AttentionKernelArguments& a,
                              int64_t token,
                              int64_t head,
                              const AttentionRow& row) {
  T* out = static_cast<T*>(a.out) + token * a.out_token_stride + head * a.out_head_stride;
  REPRISE_UNROLL
  for (int j = 0; j < AttentionRow::kMost; ++j) {
    const int64_t i = lane_index() + j * kWarpSize;
    if (i < a.head_dim) put(out + i, row.total > 0 ? row.sums[j] / row.total : 0.0F);
  }
}

/// For any type and head size: a warp computes one head of one token.
template <typename T, bool kUniform>
REPRISE_DEVICE void attention_by_rows(const CudaAttentionArguments& arguments) {
  const AttentionKernelArguments& a = arguments.call;
  const int64_t heads = a.kv_heads * a.group_size;
  const int64_t item = int64_t{block_index()} * num_warps() + warp_index();
  if (item >= a.num_tokens * heads) return;
  const int64_t token = item / heads;
  const int64_t head = item % heads;

  RequestTokens r = {0, 0, 0, 0};
  int64_t context = 0;
  if (kUniform) {
    if (token / a.query_len < a.num_reqs) {
      r = uniform_request(a, token / a.query_len);
      context = context_of(r, token - r.first_token);
    }
  } else {
    for (int64_t request = 0; request < a.num_reqs; ++request) {
      const RequestTokens candidate = request_tokens(a, request);
      const bool has_it =
          token >= candidate.first_token && token < candidate.first_token + candidate.num_tokens;
      if (has_it) {
        r = candidate;
        context = context_of(r, token - r.first_token);
      }
    }
  }
  store_row<T>(a,
               token,
               head,
               attend_row<T>(a, r.request, token, head, window_begin_of(a, context), context));
}

/// A block's share of the work.
struct AttentionTile {
  RequestTokens r;
  int64_t first_row;  // index within the request
  int64_t num_rows;   // 0 = nothing to do
  bool shares_rows;   // all warps work on the same sixteen rows, each on a part of the positions
};

REPRISE_DEVICE int64_t tiles_of(const AttentionKernelArguments& a,
                                int64_t request,
                                int64_t tile_rows) {
  return ceil_div(request_tokens(a, request).num_tokens * a.group_size, tile_rows);
}

/// Finds the index-th tile of the batch; all lanes of a warp work together.
REPRISE_DEVICE AttentionTile find_tile(const AttentionKernelArguments& a,
                                       int64_t index,
                                       int64_t tile_rows) {
  int64_t before = 0;
  for (int64_t base = 0; base < a.num_reqs; base += kWarpSize) {
    const int64_t mine = base + lane_index();
    const int count = mine < a.num_reqs ? static_cast<int>(tiles_of(a, mine, tile_rows)) : 0;
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

/// The tile of a request if every request has query_len tokens; the rows must fit into one tile.
REPRISE_DEVICE AttentionTile uniform_tile(const AttentionKernelArguments& a, int64_t request) {
  const int64_t tokens = min_of(a.query_len, a.num_tokens - request * a.query_len);
  if (request >= a.num_reqs || tokens <= 0) return {{0, 0, 0, 0}, 0, 0, false};
  const int64_t rows = tokens * a.group_size;
  return {uniform_request(a, request), 0, rows, rows <= kAttentionWarpRows};
}

/// Fills the rows of tokens from `first` on, after the last request, with zeros; blocks share the
/// work.
template <typename T>
REPRISE_DEVICE void zero_padding(const AttentionKernelArguments& a, int64_t first) {
  const int64_t heads = a.kv_heads * a.group_size;
  for (int64_t i = block_index(); i < (a.num_tokens - first) * heads; i += grid_size()) {
    T* out = static_cast<T*>(a.out) + (first + i / heads) * a.out_token_stride +
             i % heads * a.out_head_stride;
    for (int64_t d = thread_index(); d < a.head_dim; d += num_threads()) put(out + d, 0.0F);
  }
}

/// Sixteen rows of one warp and their partial results, in fragments of the tensor cores. Lane = 4 *
/// group + member holds rows `group` and `group + 8`.
template <typename T, int kHeadDim>
struct AttentionRows {
  static constexpr int kSteps = kHeadDim / 32;   // of a matrix product with the keys
  static constexpr int kChunks = kHeadDim / 64;  // of the matrix product with the values

  const AttentionKernelArguments& a;
  int64_t request;
  int64_t kv_head;
  int64_t lowest;  // positions that at least one row sees: [lowest, highest)
  int64_t highest;
  int64_t context[2];
  int64_t window_begin[2];
  Words4 q[2][kSteps];
  float sums[kChunks][8][4];  // element d = 64 * chunk + 8 * column + tile of a row
  float largest[2];           // of the scores, times log2(e)
  float totals[2];            // only of this lane's positions

  REPRISE_DEVICE AttentionRows(const AttentionKernelArguments& arguments,
                               const AttentionTile& tile,
                               int64_t head,
                               int64_t first_row)
      : a(arguments), request(tile.r.request), kv_head(head) {
    const Words4 zeros = {{0, 0, 0, 0}};
    const int64_t end = tile.first_row + tile.num_rows;
    const int member = lane_index() % 4;
    REPRISE_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int64_t row = first_row + lane_index() / 4 + half * 8;
      const bool exists = row < end;
      const int64_t token = row / a.group_size;
      context[half] = exists ? max_of(0, context_of(tile.r, token)) : 0;
      window_begin[half] = window_begin_of(a, context[half]);
      const T* x = static_cast<const T*>(a.q) + (tile.r.first_token + token) * a.q_token_stride +
                   (kv_head * a.group_size + row % a.group_size) * a.q_head_stride;
      REPRISE_UNROLL
      for (int step = 0; step < kSteps; ++step) {
        q[half][step] = exists ? load_words(x + step * 32 + member * 8) : zeros;
      }
      largest[half] = kLowest;
      totals[half] = 0;
    }
    const int64_t last_row = min_of(first_row + kAttentionWarpRows, end) - 1;
    highest = last_row < first_row ? 0 : max_of(0, context_of(tile.r, last_row / a.group_size));
    lowest = highest == 0
                 ? 0
                 : window_begin_of(a, max_of(0, context_of(tile.r, first_row / a.group_size)));
    REPRISE_UNROLL
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      REPRISE_UNROLL
      for (int j = 0; j < 8; ++j) {
        REPRISE_UNROLL
        for (int i = 0; i < 4; ++i) sums[chunk][j][i] = 0;
      }
    }
  }

  /// The cache row of a position, or of the nearest position that a row sees: other rows must not
  /// be read.
  REPRISE_DEVICE const T* row_of(const void* cache, int64_t position) const {
    return cache_row<T>(a, cache, request, kv_head, max_of(lowest, min_of(position, highest - 1)));
  }

  /// Adds sixteen positions. \pre lowest < highest
  REPRISE_DEVICE void attend(int64_t first) {
    const int group = lane_index() / 4;
    const int member = lane_index() % 4;
    Words4 keys[2][kSteps];
    REPRISE_UNROLL
    for (int tile = 0; tile < 2; ++tile) {
      const T* key = row_of(a.key_cache, first + tile * 8 + group);
      REPRISE_UNROLL
      for (int step = 0; step < kSteps; ++step) {
        keys[tile][step] = load_words(key + step * 32 + member * 8);
      }
    }
    Words4 values[4][kChunks];
    REPRISE_UNROLL
    for (int i = 0; i < 4; ++i) {
      const T* value = row_of(a.value_cache, first + i / 2 * 8 + member * 2 + i % 2);
      REPRISE_UNROLL
      for (int chunk = 0; chunk < kChunks; ++chunk) {
        values[i][chunk] = load_words(value + chunk * 64 + group * 8);
      }
    }

    float scores[2][4] = {};
    REPRISE_UNROLL
    for (int tile = 0; tile < 2; ++tile) {
      REPRISE_UNROLL
      for (int step = 0; step < kSteps; ++step) {
        REPRISE_UNROLL
        for (int i = 0; i < 4; i += 2) {
          const uint32_t left[4] = {q[0][step].word[i],
                                    q[1][step].word[i],
                                    q[0][step].word[i + 1],
                                    q[1][step].word[i + 1]};
          const uint32_t right[2] = {keys[tile][step].word[i], keys[tile][step].word[i + 1]};
          multiply_fragments<T>(scores[tile], left, right);
        }
      }
    }
    uint32_t packed[4];
    REPRISE_UNROLL
    for (int half = 0; half < 2; ++half) {
      float maximum = largest[half];
      REPRISE_UNROLL
      for (int i = 0; i < 4; ++i) {
        const int64_t position = first + i / 2 * 8 + member * 2 + i % 2;
        float& score = scores[i / 2][half * 2 + i % 2];
        const bool is_seen = position < context[half] && position >= window_begin[half];
        score = is_seen ? score * (a.scale * kLog2E) : 2 * kLowest;
        maximum = score > maximum ? score : maximum;
      }
      for (int mask = 1; mask <= 2; mask *= 2) {
        const float other = shuffle_xor(maximum, mask);
        maximum = other > maximum ? other : maximum;
      }
      const float correction = exponential_2(largest[half] - maximum);
      largest[half] = maximum;
      float total = 0;
      REPRISE_UNROLL
      for (int i = 0; i < 4; ++i) {
        float& score = scores[i / 2][half * 2 + i % 2];
        score = exponential_2(score - maximum);
        total += score;
      }
      totals[half] = totals[half] * correction + total;
      REPRISE_UNROLL
      for (int tile = 0; tile < 2; ++tile) {
        packed[tile * 2 + half] = pack<T>(scores[tile][half * 2], scores[tile][half * 2 + 1]);
      }
      REPRISE_UNROLL
      for (int chunk = 0; chunk < kChunks; ++chunk) {
        REPRISE_UNROLL
        for (int j = 0; j < 8; ++j) {
          sums[chunk][j][half * 2] *= correction;
          sums[chunk][j][half * 2 + 1] *= correction;
        }
      }
    }
    REPRISE_UNROLL
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      REPRISE_UNROLL
      for (int j = 0; j < 8; ++j) {
        // Joins the j-th elements of two neighbouring positions.
        const uint32_t halves = j % 2 == 0 ? 0x5410U : 0x7632U;
        const uint32_t right[2] = {
            permute_bytes(values[0][chunk].word[j / 2], values[1][chunk].word[j / 2], halves),
            permute_bytes(values[2][chunk].word[j / 2], values[3][chunk].word[j / 2], halves)};
        multiply_fragments<T>(sums[chunk][j], packed, right);
      }
    }
  }

  /// Writes sums, largest and total of each row to `rows`: [16][kHeadDim + 2].
  REPRISE_DEVICE void leave_in(float* rows) const {
    const int group = lane_index() / 4;
    const int member = lane_index() % 4;
    REPRISE_UNROLL
    for (int half = 0; half < 2; ++half) {
      float* row = rows + (group + half * 8) * (kHeadDim + 2);
      REPRISE_UNROLL
      for (int chunk = 0; chunk < kChunks; ++chunk) {
        REPRISE_UNROLL
        for (int j = 0; j < 8; ++j) {
          REPRISE_UNROLL
          for (int i = 0; i < 2; ++i) {
            row[chunk * 64 + (member * 2 + i) * 8 + j] = sums[chunk][j][half * 2 + i];
          }
        }
      }
      float total = totals[half];
      total += shuffle_xor(total, 1);
      total += shuffle_xor(total, 2);
      if (member == 0) {
        row[kHeadDim] = largest[half];
        row[kHeadDim + 1] = total;
      }
    }
  }
};

/// Merges element d of one row from `count` parts that lie `stride` floats apart, in their order.
struct MergedElement {
  float sum;
  float largest;
  float total;
};
template <int kHeadDim, typename Load>
REPRISE_DEVICE MergedElement
merge_parts(const float* row, int64_t stride, int count, int d, const Load& load) {
  float largest = kLowest;
  for (int i = 0; i < count; ++i) {
    const float candidate = load(row + i * stride + kHeadDim);
    largest = candidate > largest ? candidate : largest;
  }
  MergedElement merged = {0, largest, 0};
  for (int i = 0; i < count; ++i) {
    const float* part = row + i * stride;
    const float weight = exponential_2(load(part + kHeadDim) - largest);
    merged.sum = multiply_add(load(part + d), weight, merged.sum);
    merged.total = multiply_add(load(part + kHeadDim + 1), weight, merged.total);
  }
  return merged;
}

template <typename T>
REPRISE_DEVICE void store_attention(const AttentionKernelArguments& a,
                                    const AttentionTile& tile,
                                    int64_t kv_head,
                                    int row,
                                    int d,
                                    const MergedElement& merged) {
  const int64_t index = tile.first_row + row;
  T* out = static_cast<T*>(a.out) +
           (tile.r.first_token + index / a.group_size) * a.out_token_stride +
           (kv_head * a.group_size + index % a.group_size) * a.out_head_stride;
  put(out + d, merged.total > 0 ? merged.sum / merged.total : 0.0F);
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

/// A block adds the steps [begin, end) of a tile, and its threads call act(row, d, element) for the
/// results. Shared memory must be free before the call; the block must synchronise before it is
/// used again.
template <typename T, int kHeadDim, typename Act>
REPRISE_DEVICE void attend_tile(const AttentionKernelArguments& a,
                                const AttentionTile& tile,
                                int64_t kv_head,
                                int64_t begin,
                                int64_t end,
                                const Act& act) {
  constexpr int kRowSize = kHeadDim + 2;
  const int64_t first_row =
      tile.first_row + (tile.shares_rows ? 0 : warp_index() * kAttentionWarpRows);
  AttentionRows<T, kHeadDim> rows(a, tile, kv_head, first_row);
  const int64_t stop = min_of(end, ceil_div(rows.highest, kAttentionWarpRows));
  for (int64_t step = begin + (tile.shares_rows ? warp_index() : 0); step < stop;
       step += tile.shares_rows ? num_warps() : 1) {
    rows.attend(step * kAttentionWarpRows);
  }
  auto* shared = reinterpret_cast<float*>(shared_memory());  // [warps][16][kRowSize]
  rows.leave_in(shared + warp_index() * kAttentionWarpRows * kRowSize);
  sync_block();
  const int num_elements = static_cast<int>(tile.num_rows) * kHeadDim;
  for (int i = thread_index(); i < num_elements; i += num_threads()) {
    const int row = i / kHeadDim;
    const int d = i % kHeadDim;
    act(row,
        d,
        merge_parts<kHeadDim>(shared + row * kRowSize,
                              kAttentionWarpRows * kRowSize,
                              tile.shares_rows ? num_warps() : 1,
                              d,
                              [](const float* place) { return *place; }));
  }
}

/// Called after a block has written its part of a tile. The last of `splits` blocks merges the
/// parts, which lie part_size floats apart, and stores the tile's results.
template <typename T, int kHeadDim>
REPRISE_DEVICE void merge_when_last(const AttentionKernelArguments& a,
                                    const AttentionTile& tile,
                                    int64_t kv_head,
                                    int64_t splits,
                                    const float* parts,
                                    int64_t part_size,
                                    int32_t* arrived) {
  fence();
  sync_block();
  auto* is_last = reinterpret_cast<int*>(shared_memory());
  if (thread_index() == 0) *is_last = atomic_add(arrived, 1) == splits - 1 ? 1 : 0;
  sync_block();
  if (*is_last == 0) return;
  fence();
  const int num_elements = static_cast<int>(tile.num_rows) * kHeadDim;
  for (int i = thread_index(); i < num_elements; i += num_threads()) {
    const int row = i / kHeadDim;
    const int d = i % kHeadDim;
    // Loads bypass the first-level cache, which may hold old values of memory that other blocks
    // wrote.
    const auto load = [](const float* place) { return load_fresh(place); };
    store_attention<T>(
        a,
        tile,
        kv_head,
        row,
        d,
        merge_parts<kHeadDim>(
            parts + row * (kHeadDim + 2), part_size, static_cast<int>(splits), d, load));
  }
  if (thread_index() == 0) *arrived = 0;  // for the next launch
}

/// Uses the tensor cores and splits the positions over blocks; the last block of a tile merges the
/// parts of all blocks. \pre q is aligned to 16 bytes and so are its strides
template <typename T, int kHeadDim, bool kUniform>
REPRISE_DEVICE void attention_fragments(const CudaAttentionArguments& arguments) {
  constexpr int kRowSize = kHeadDim + 2;
  const AttentionKernelArguments& a = arguments.call;
  zero_padding<T>(a, kUniform ? a.num_reqs * a.query_len : a.query_start_loc[a.num_reqs]);
  const int64_t split = block_index() % arguments.num_splits;
  const int64_t kv_head = block_index() / arguments.num_splits % a.kv_heads;
  const int64_t tile_index = block_index() / arguments.num_splits / a.kv_heads;
  const AttentionTile tile =
      kUniform ? uniform_tile(a, tile_index) : find_tile(a, tile_index, kAttentionTileRows);
  if (tile.num_rows == 0) return;

  // Uses as many parts as are worth their cost.
  const AttentionSteps steps = steps_of(a, tile);
  const int64_t splits =
      max_of(1,
             min_of(arguments.num_splits,
                    ceil_div(steps.count * kAttentionWarpRows, kLeastSplitPositions)));
  if (split >= splits) return;
  const int64_t steps_per_split = ceil_div(steps.count, splits);

  const int64_t part_size = int64_t{kAttentionTileRows} * kRowSize;
  const int64_t item = tile_index * a.kv_heads + kv_head;
  float* partials = arguments.partials + item * arguments.num_splits * part_size;
  attend_tile<T, kHeadDim>(a,
                           tile,
                           kv_head,
                           steps.first + split * steps_per_split,
                           steps.first + min_of(steps.count, (split + 1) * steps_per_split),
                           [&](int row, int d, const MergedElement& merged) {
                             if (splits == 1) {
                               store_attention<T>(a, tile, kv_head, row, d, merged);
                               return;
                             }
                             float* part = partials + split * part_size + row * kRowSize;
                             part[d] = merged.sum;
                             if (d == 0) {
                               part[kHeadDim] = merged.largest;
                               part[kHeadDim + 1] = merged.total;
                             }
                           });
  if (splits > 1) {
    merge_when_last<T, kHeadDim>(
        a, tile, kv_head, splits, partials, part_size, arguments.arrived + item);
  }
}

}  // namespace reprise::kernels::cuda
