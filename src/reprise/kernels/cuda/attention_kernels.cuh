#pragma once

#include "reprise/kernels/cuda/activation_kernels.cuh"
#include "reprise/kernels/cuda/attention_rows.cuh"
#include "reprise/kernels/cuda/attention_share.cuh"
#include "reprise/kernels/cuda/attention_tile.cuh"
#include "reprise/kernels/cuda/cache_codes.cuh"

// Attention over the paged cache.
namespace reprise::kernels::cuda {

/// The result of a warp for one head of one token: a lane holds elements lane + 32 j of the sums.
struct AttentionRow {
  static constexpr int kMost = kMaxAttentionHeadDim / kWarpSize;

  float sums[kMost];
  float largest;  // the largest score
  float total;
};

/// A row of a cache, read element by element.
template <typename T, CacheElements kCache>
class CacheRow {
 public:
  REPRISE_DEVICE CacheRow(const AttentionKernelArguments& a,
                          const void* cache,
                          int64_t index,
                          float scale)
      : row_(static_cast<const char*>(cache)), type_(a.cache.type), scale_(scale) {
    if constexpr (kCache == CacheElements::of_model) {
      row_ += index * a.head_dim * static_cast<int64_t>(sizeof(T));
    } else {
      row_ += index * a.cache.row_bytes;
      if (a.cache.has_row_scales != 0) scale_ = scale_after(row_, a.head_dim);
    }
  }
  [[nodiscard]] REPRISE_DEVICE float at(int64_t i) const {
    if constexpr (kCache == CacheElements::of_model) {
      return as_float(reinterpret_cast<const T*>(row_)[i]);
    } else {
      return value_of_code(type_, reinterpret_cast<const uint8_t*>(row_)[i]) * scale_;
    }
  }

 private:
  const char* row_;
  CacheType type_;
  float scale_;
};

/// The positions [begin, end) of a row, and whether the score of the head's sink belongs to them.
struct SeenPositions {
  int64_t begin;
  int64_t end;
  bool has_sink;
};

/// A warp handles the positions one after the other.
template <typename T, CacheElements kCache>
REPRISE_DEVICE AttentionRow attend_row_over(const AttentionKernelArguments& a,
                                            int64_t request,
                                            int64_t token,
                                            int64_t head,
                                            const SeenPositions& seen) {
  const T* q = static_cast<const T*>(a.q) + token * a.q_token_stride + head * a.q_head_stride;
  AttentionRow row = {{}, kLowest, 0};
  if (a.sinks != nullptr && seen.has_sink) {
    // One more score, whose value is 0.
    row.largest = as_float(static_cast<const T*>(a.sinks)[head]);
    row.total = 1;
  }
  for (int64_t position = seen.begin; position < seen.end; ++position) {
    const int64_t index = cache_row_index(a, request, head / a.group_size, position);
    const CacheRow<T, kCache> key(a, a.key_cache, index, a.cache.k_scale);
    const CacheRow<T, kCache> value(a, a.value_cache, index, a.cache.v_scale);
    float score = 0;
    for (int64_t i = lane_index(); i < a.head_dim; i += kWarpSize) {
      score = multiply_add(as_float(q[i]), key.at(i), score);
    }
    score = warp_sum(score);
    if (a.biases != nullptr) score += a.biases[head * a.num_biases + position];
    score *= a.scale;
    if (a.soft_cap > 0) score = soft_capped(score, a.soft_cap);
    const float maximum = score > row.largest ? score : row.largest;
    const float correction = exponential(row.largest - maximum);
    const float weight = exponential(score - maximum);
    row.largest = maximum;
    row.total = row.total * correction + weight;
    REPRISE_UNROLL
    for (int j = 0; j < AttentionRow::kMost; ++j) {
      const int64_t i = lane_index() + j * kWarpSize;
      if (i < a.value_dim) {
        row.sums[j] = multiply_add(weight, value.at(i), row.sums[j] * correction);
      }
    }
  }
  return row;
}

template <typename T>
REPRISE_DEVICE AttentionRow attend_row(const AttentionKernelArguments& a,
                                       int64_t request,
                                       int64_t token,
                                       int64_t head,
                                       const SeenPositions& seen) {
  if (a.cache.type == CacheType::like_model) {
    return attend_row_over<T, CacheElements::of_model>(a, request, token, head, seen);
  }
  return attend_row_over<T, CacheElements::codes>(a, request, token, head, seen);
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
    if (i < a.value_dim) put(out + i, row.total > 0 ? row.sums[j] / row.total : 0.0F);
  }
}

/// Returns one past the last position that a token sees which has `context` positions up to its
/// own.
REPRISE_DEVICE int64_t end_of(const AttentionKernelArguments& a,
                              const RequestTokens& r,
                              int64_t context) {
  if (a.is_bidirectional == 0 || r.num_tokens == 0) return context;
  return a.sliding_window > 0 ? min_of(r.seq_len, context + a.sliding_window - 1) : r.seq_len;
}

/// For any type, head size and kind of attention: a warp computes one head of one token.
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
  const int64_t begin = window_begin_of(a, context);
  const SeenPositions seen = {begin, end_of(a, r, context), true};
  store_row<T>(a, token, head, attend_row<T>(a, r.request, token, head, seen));
}

/// Fills the rows of tokens from `first` on, after the last request, with zeros; blocks share the
/// work.
template <typename T>
REPRISE_DEVICE void zero_padding(const AttentionKernelArguments& a, int64_t first) {
  const int64_t heads = a.kv_heads * a.group_size;
  for (int64_t i = block_index(); i < (a.num_tokens - first) * heads; i += grid_size()) {
    T* out = static_cast<T*>(a.out) + (first + i / heads) * a.out_token_stride +
             i % heads * a.out_head_stride;
    for (int64_t d = thread_index(); d < a.value_dim; d += num_threads()) put(out + d, 0.0F);
  }
}

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
  const Divided place = divide(tile.first_row + row, a.group_size);  // token, head of the group
  T* out = static_cast<T*>(a.out) + (tile.r.first_token + place.quotient) * a.out_token_stride +
           (kv_head * a.group_size + place.rest) * a.out_head_stride;
  put(out + d, merged.total > 0 ? merged.sum / merged.total : 0.0F);
}

/// A block adds a part of a tile's steps, and its threads call act(row, d, element) for the
/// results. Shared memory must be free before the call; the block must synchronise before it is
/// used again.
template <typename T, int kHeadDim, CacheElements kCache, typename Act>
REPRISE_DEVICE void attend_tile(const AttentionKernelArguments& a,
                                const AttentionTile& tile,
                                int64_t kv_head,
                                const TilePart& part,
                                const Act& act) {
  constexpr int kRowSize = kHeadDim + 2;
  const int64_t first_row =
      tile.first_row + (tile.shares_rows ? 0 : warp_index() * kAttentionWarpRows);
  AttentionRows<T, kHeadDim, kCache> rows(a, tile, kv_head, first_row);
  const bool has_sinks = a.sinks != nullptr && part.is_first;
  if (has_sinks && (!tile.shares_rows || warp_index() == 0)) rows.add_sinks(tile, first_row);
  const int64_t stop = min_of(part.end, ceil_div(rows.highest, kAttentionWarpRows));
  for (int64_t step = part.begin + (tile.shares_rows ? warp_index() : 0); step < stop;
       step += tile.shares_rows ? num_warps() : 1) {
    rows.attend(static_cast<int>(step * kAttentionWarpRows));
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

/// The weights of a row's parts, which lie `stride` floats apart; a warp computes them. The largest
/// score of a part lies behind its sums. Loads bypass the first-level cache, which may hold old
/// values of memory that other blocks wrote.
template <int kHeadDim>
REPRISE_DEVICE void weigh_parts(const float* row, int64_t stride, int count, float* weights) {
  float largest = kLowest;
  for (int i = lane_index(); i < count; i += kWarpSize) {
    const float candidate = load_fresh(row + i * stride + kHeadDim);
    largest = candidate > largest ? candidate : largest;
  }
  largest = warp_max(largest);
  for (int i = lane_index(); i < count; i += kWarpSize) {
    weights[i] = exponential_2(load_fresh(row + i * stride + kHeadDim) - largest);
  }
}

/// The weighted sum of one element of all parts, in their order.
REPRISE_DEVICE float merge_column(const float* first,
                                  int64_t stride,
                                  int count,
                                  const float* weights) {
  float sum = 0;
  REPRISE_UNROLL_BY_4
  for (int i = 0; i < count; ++i)
    sum = multiply_add(load_fresh(first + i * stride), weights[i], sum);
  return sum;
}

/// Called after a block has written its part of a tile. Whether it is the last of `num_parts`
/// blocks, which then sees the parts of all.
REPRISE_DEVICE bool arrives_last(int64_t num_parts, int32_t* arrived) {
  fence();
  sync_block();
  auto* is_last = reinterpret_cast<int*>(shared_memory());
  if (thread_index() == 0) *is_last = atomic_add(arrived, 1) == num_parts - 1 ? 1 : 0;
  sync_block();
  const bool merges = *is_last != 0;
  sync_block();
  if (merges) fence();
  return merges;
}

/// Called after a block has written its part of a tile. The last of `num_parts` blocks merges the
/// parts, which lie part_size floats apart, and stores the tile's results.
template <typename T, int kHeadDim>
REPRISE_DEVICE void merge_when_last(const AttentionKernelArguments& a,
                                    const AttentionTile& tile,
                                    int64_t kv_head,
                                    int64_t num_parts,
                                    const float* parts,
                                    int64_t part_size,
                                    int32_t* arrived) {
  if (!arrives_last(num_parts, arrived)) return;
  // The weight of each part of a row is computed once, a part per lane, and not by every element.
  const int count = static_cast<int>(num_parts);
  const int rows = static_cast<int>(tile.num_rows);
  static_assert(kAttentionTileRows * (kMostParts + 1) * sizeof(float) <=
                attention_shared_bytes(kHeadDim));
  auto* weights = reinterpret_cast<float*>(shared_memory());  // [rows][count]
  float* totals = weights + rows * count;                     // [rows]
  for (int row = warp_index(); row < rows; row += num_warps()) {
    weigh_parts<kHeadDim>(parts + row * (kHeadDim + 2), part_size, count, weights + row * count);
  }
  sync_block();
  for (int row = thread_index(); row < rows; row += num_threads()) {
    totals[row] = merge_column(
        parts + row * (kHeadDim + 2) + kHeadDim + 1, part_size, count, weights + row * count);
  }
  sync_block();
  for (int i = thread_index(); i < rows * kHeadDim; i += num_threads()) {
    const int row = i / kHeadDim;
    const int d = i % kHeadDim;
    const float sum =
        merge_column(parts + row * (kHeadDim + 2) + d, part_size, count, weights + row * count);
    store_attention<T>(a, tile, kv_head, row, d, {sum, 0, totals[row]});
  }
  if (thread_index() == 0) *arrived = 0;  // for the next launch
}

/// One part of a tile of one kv head, which attend(a, tile, kv_head, part, act) computes like
/// attend_tile(). The last block of a tile merges its parts.
template <typename T, int kHeadDim, typename Attend>
REPRISE_DEVICE void attend_share(const CudaAttentionArguments& arguments,
                                 const AttentionShare& share,
                                 int kv_head,
                                 const Attend& attend) {
  constexpr int kRowSize = kHeadDim + 2;
  const AttentionKernelArguments& a = arguments.call;
  const AttentionTile& tile = share.tile;
  const AttentionSteps steps = steps_of(a, tile);
  const int64_t steps_per_part =
      divide(steps.count + share.num_parts - 1, share.num_parts).quotient;
  // The row of partial results of the tile's first part.
  const auto first_row = [&] {
    return share.first_partial_row * a.kv_heads + kv_head * share.num_parts * tile.num_rows;
  };
  const TilePart part = {steps.first + share.part * steps_per_part,
                         steps.first + min_of(steps.count, (share.part + 1) * steps_per_part),
                         share.part == 0};
  attend(a, tile, kv_head, part, [&](int row, int d, const MergedElement& merged) {
    if (share.num_parts == 1) {
      store_attention<T>(a, tile, kv_head, row, d, merged);
      return;
    }
    float* place = arguments.partials + (first_row() + share.part * tile.num_rows + row) * kRowSize;
    place[d] = merged.sum;
    if (d == 0) {
      place[kHeadDim] = merged.largest;
      place[kHeadDim + 1] = merged.total;
    }
  });
  if (share.num_parts > 1) {
    merge_when_last<T, kHeadDim>(a,
                                 tile,
                                 kv_head,
                                 share.num_parts,
                                 arguments.partials + first_row() * kRowSize,
                                 tile.num_rows * kRowSize,
                                 arguments.arrived + first_row());
  }
}

/// Divides the positions among blocks. A block computes neighbouring units of work, because the
/// blocks of a grid may be fewer than the units.
template <typename T, int kHeadDim, typename Attend>
REPRISE_DEVICE void attend_shares(const CudaAttentionArguments& arguments,
                                  bool is_uniform,
                                  const Attend& attend) {
  const AttentionKernelArguments& a = arguments.call;
  if (arguments.served != ServedRequests::of_few_rows) {
    zero_padding<T>(a, is_uniform ? a.num_reqs * a.query_len : a.query_start_loc[a.num_reqs]);
  }
  const auto kv_heads = static_cast<int>(a.kv_heads);
  const BatchWork work = is_uniform ? batch_work<true>(arguments) : batch_work<false>(arguments);
  const int units = work.units * kv_heads;
  const auto per_block = static_cast<int>(ceil_div(units, grid_size()));
  const int first = static_cast<int>(block_index()) * per_block;
  const int end = static_cast<int>(min_of(first + per_block, units));
  for (int unit = first; unit < end; ++unit) {
    if (unit > first) sync_block();  // the shared memory may still be read
    attend_share<T, kHeadDim>(arguments,
                              is_uniform
                                  ? find_share<true>(arguments, unit / kv_heads, work.halvings)
                                  : find_share<false>(arguments, unit / kv_heads, work.halvings),
                              unit % kv_heads,
                              attend);
  }
}

/// Uses the tensor cores. \pre q is aligned to 16 bytes and so are its strides
template <typename T, int kHeadDim, bool kUniform, CacheElements kCache = CacheElements::of_model>
REPRISE_DEVICE void attention_fragments(const CudaAttentionArguments& arguments) {
  attend_shares<T, kHeadDim>(
      arguments,
      kUniform,
      [](const auto& a, const auto& tile, int kv_head, const auto& part, const auto& act) {
        attend_tile<T, kHeadDim, kCache>(a, tile, kv_head, part, act);
      });
}

}  // namespace reprise::kernels::cuda
