#pragma once

#include "reprise/kernels/cuda/attention_kernels.cuh"
#include "reprise/tensor/attention_plan.h"

// Attention with a plan that the host made: the grid is fixed, and the plan gives the number of
// items. A second launch merges the parts. See attention/planned_attention.inl for the same on the
// CPU.
namespace reprise::kernels::cuda {

/// A plan in memory, and whether it belongs to this batch.
struct AttentionPlan {
  const AttentionPlanHeader& header;
  const PlannedRequest* requests;

  REPRISE_DEVICE explicit AttentionPlan(const int32_t* words)
      : header(*reinterpret_cast<const AttentionPlanHeader*>(words)),
        requests(reinterpret_cast<const PlannedRequest*>(&header + 1)) {}

  REPRISE_DEVICE bool fits(const AttentionKernelArguments& a) const {
    return header.num_reqs <= a.num_reqs && header.num_tokens <= a.num_tokens &&
           header.num_tokens == a.query_start_loc[a.num_reqs];
  }
  REPRISE_DEVICE bool fits(const AttentionKernelArguments& a, int64_t request) const {
    const PlannedRequest& r = requests[request];
    return r.seq_len == a.seq_lens[request] && r.first_token == a.query_start_loc[request] &&
           r.first_token + r.num_tokens == a.query_start_loc[request + 1];
  }
  /// The request of an item: the last request that starts at or before the item.
  REPRISE_DEVICE int64_t request_of(int64_t item) const {
    int64_t low = 0;
    int64_t high = header.num_reqs;
    while (high - low > 1) {
      const int64_t middle = (low + high) / 2;
      if (requests[middle].first_item <= item) {
        low = middle;
      } else {
        high = middle;
      }
    }
    return low;
  }
};

/// One item of a plan: some query tokens of a request, and the key and value positions that they
/// attend to in this item (all positions, or one part).
struct PlannedItem {
  RequestTokens r;
  int64_t begin;  // tokens, relative to the request's first
  int64_t end;
  int64_t part;  // -1: all positions
  int64_t first_position;
  int64_t last_position;  // exclusive
  bool fits;
};

REPRISE_DEVICE PlannedItem planned_item(const AttentionKernelArguments& a,
                                        const AttentionPlan& plan,
                                        int64_t item) {
  const int64_t request = plan.request_of(item);
  const PlannedRequest& r = plan.requests[request];
  const RequestTokens tokens = {request, r.first_token, r.num_tokens, r.seq_len};
  const int64_t index = item - r.first_item;
  const bool fits = plan.fits(a, request);
  if (r.first_part < 0) {
    const int64_t begin = index * plan.header.tokens_per_item;
    const int64_t end = min_of(begin + plan.header.tokens_per_item, r.num_tokens);
    return {tokens, begin, end, -1, 0, r.seq_len, fits};
  }
  const int64_t first = index * plan.header.positions_per_part;
  const int64_t last = min_of(first + plan.header.positions_per_part, r.seq_len);
  return {tokens, 0, 1, r.first_part + index, first, last, fits};
}

/// The memory where a head of a part stores its sums, largest score (times log2(e)) and total
/// weight.
REPRISE_DEVICE float* partial_of(const PlannedAttentionArguments& p, int64_t part, int64_t head) {
  const int64_t heads = p.call.kv_heads * p.call.group_size;
  return p.partials + (part * heads + head) * (p.call.head_dim + 2);
}

/// Fills the rows of tokens [begin, end) and heads [head_begin, head_end) with zeros, or with NaN
/// where they must not be taken for results. The whole block takes part.
template <typename T>
REPRISE_DEVICE void fill_rows(const AttentionKernelArguments& a,
                              int64_t begin,
                              int64_t end,
                              int64_t head_begin,
                              int64_t head_end,
                              float value) {
  for (int64_t token = begin; token < end; ++token) {
    for (int64_t head = head_begin; head < head_end; ++head) {
      T* out = static_cast<T*>(a.out) + token * a.out_token_stride + head * a.out_head_stride;
      for (int64_t d = thread_index(); d < a.head_dim; d += num_threads()) put(out + d, value);
    }
  }
}

/// Calls act(item, kv_head) for each item of the block, and fills the rows that belong to no item.
template <typename T, typename Act>
REPRISE_DEVICE void for_each_item(const PlannedAttentionArguments& p, const Act& act) {
  const AttentionKernelArguments& a = p.call;
  const AttentionPlan plan(p.plan);
  const bool fits = plan.fits(a);
  const float nan = float_of(0x7FC00000U);
  const int64_t first = fits ? plan.header.num_tokens : 0;
  for (int64_t token = first + block_index(); token < a.num_tokens; token += grid_size()) {
    fill_rows<T>(a, token, token + 1, 0, a.kv_heads * a.group_size, fits ? 0.0F : nan);
  }
  if (!fits) return;
  for (int64_t unit = block_index(); unit < plan.header.num_items * a.kv_heads;
       unit += grid_size()) {
    const PlannedItem item = planned_item(a, plan, unit / a.kv_heads);
    const int64_t kv_head = unit % a.kv_heads;
    if (item.fits) {
      act(item, kv_head);
    } else {
      fill_rows<T>(a,
                   item.r.first_token + item.begin,
                   item.r.first_token + item.end,
                   kv_head * a.group_size,
                   (kv_head + 1) * a.group_size,
                   nan);
    }
  }
}

/// For any type and head size: a warp computes one head of one token.
template <typename T>
REPRISE_DEVICE void planned_attention_by_rows(const PlannedAttentionArguments& p) {
  const AttentionKernelArguments& a = p.call;
  for_each_item<T>(p, [&](const PlannedItem& item, int64_t kv_head) {
    const int64_t num_rows = (item.end - item.begin) * a.group_size;
    for (int64_t index = warp_index(); index < num_rows; index += num_warps()) {
      const int64_t token = item.begin + index / a.group_size;
      const int64_t head = kv_head * a.group_size + index % a.group_size;
      const int64_t context = max_of(0, context_of(item.r, token));
      const SeenPositions seen = {max_of(item.first_position, window_begin_of(a, context)),
                                  min_of(item.last_position, context),
                                  item.first_position == 0};
      const AttentionRow row =
          attend_row<T>(a, item.r.request, item.r.first_token + token, head, seen);
      if (item.part < 0) {
        store_row<T>(a, item.r.first_token + token, head, row);
        continue;
      }
      float* partial = partial_of(p, item.part, head);
      REPRISE_UNROLL
      for (int j = 0; j < AttentionRow::kMost; ++j) {
        const int64_t i = lane_index() + j * kWarpSize;
        if (i < a.head_dim) partial[i] = row.sums[j];
      }
      if (lane_index() == 0) {
        partial[a.head_dim] = row.largest * kLog2E;
        partial[a.head_dim + 1] = row.total;
      }
    }
  });
}

/// Uses the tensor cores. \pre q is aligned to 16 bytes and so are its strides
template <typename T, int kHeadDim, CacheElements kCache = CacheElements::of_model>
REPRISE_DEVICE void planned_attention_fragments(const PlannedAttentionArguments& p) {
  const AttentionKernelArguments& a = p.call;
  for_each_item<T>(p, [&](const PlannedItem& item, int64_t kv_head) {
    const int64_t last_row = item.end * a.group_size;
    for (int64_t row = item.begin * a.group_size; row < last_row; row += kAttentionTileRows) {
      const int64_t num_rows = min_of(kAttentionTileRows, last_row - row);
      const AttentionTile tile = {item.r, row, num_rows, num_rows <= kAttentionWarpRows};
      const AttentionSteps steps = steps_of(a, tile);
      // Parts begin at multiples of sixteen positions.
      const TilePart part = {
          max_of(steps.first, item.first_position / kAttentionWarpRows),
          min_of(steps.first + steps.count, ceil_div(item.last_position, kAttentionWarpRows)),
          item.first_position == 0};
      attend_tile<T, kHeadDim, kCache>(
          a, tile, kv_head, part, [&](int index, int d, const MergedElement& merged) {
            if (item.part < 0) {
              store_attention<T>(a, tile, kv_head, index, d, merged);
              return;
            }
            float* partial =
                partial_of(p, item.part, kv_head * a.group_size + (row + index) % a.group_size);
            partial[d] = merged.sum;
            if (d == 0) {
              partial[kHeadDim] = merged.largest;
              partial[kHeadDim + 1] = merged.total;
            }
          });
      sync_block();  // before the next tile uses the shared memory
    }
  });
}

/// The largest score of `count` parts that lie `stride` floats apart. The whole block takes part.
REPRISE_DEVICE float largest_score(const float* scores, int64_t stride, int64_t count) {
  float largest = kLowest;
  for (int64_t i = thread_index(); i < count; i += num_threads()) {
    const float candidate = scores[i * stride];
    largest = candidate > largest ? candidate : largest;
  }
  largest = warp_max(largest);
  auto* of_warps = reinterpret_cast<float*>(shared_memory());
  sync_block();  // the shared memory may still be read
  if (lane_index() == 0) of_warps[warp_index()] = largest;
  sync_block();
  for (int warp = 0; warp < num_warps(); ++warp)
    largest = of_warps[warp] > largest ? of_warps[warp] : largest;
  return largest;
}

/// Merges the parts of one head of a request into a row of the result, in the order of the
/// positions. Each thread weighs one part of a chunk; then each adds its element of all these
/// parts.
template <typename T>
REPRISE_DEVICE void merge_row(const AttentionKernelArguments& a,
                              const float* first,
                              int64_t parts,
                              T* out) {
  const int64_t stride = a.kv_heads * a.group_size * (a.head_dim + 2);
  const float largest = largest_score(first + a.head_dim, stride, parts);
  auto* weights = reinterpret_cast<float*>(shared_memory());
  float* totals = weights + kMergeThreads;
  const int d = thread_index();
  float sum = 0;
  float total = 0;
  for (int64_t begin = 0; begin < parts; begin += kMergeThreads) {
    const int count = static_cast<int>(min_of(kMergeThreads, parts - begin));
    const float* chunk = first + begin * stride;
    sync_block();
    if (thread_index() < count) {
      const float* partial = chunk + thread_index() * stride;
      weights[thread_index()] = exponential_2(partial[a.head_dim] - largest);
      totals[thread_index()] = partial[a.head_dim + 1];
    }
    sync_block();
    if (d >= a.head_dim) continue;

    for (int i = 0; i < count; ++i) {
      total = multiply_add(totals[i], weights[i], total);
      sum = multiply_add(chunk[i * stride + d], weights[i], sum);
    }
  }
  if (d < a.head_dim) put(out + d, sum / total);
}

template <typename T>
REPRISE_DEVICE void merge_attention(const PlannedAttentionArguments& p) {
  const AttentionKernelArguments& a = p.call;
  const AttentionPlan plan(p.plan);
  if (plan.header.num_parts == 0 || !plan.fits(a)) return;
  const int64_t heads = a.kv_heads * a.group_size;
  for (int64_t unit = block_index(); unit < plan.header.num_reqs * heads; unit += grid_size()) {
    const PlannedRequest& r = plan.requests[unit / heads];
    if (r.first_part < 0 || !plan.fits(a, unit / heads)) continue;
    const int64_t head = unit % heads;
    T* out = static_cast<T*>(a.out) + r.first_token * a.out_token_stride + head * a.out_head_stride;
    merge_row(a,
              partial_of(p, r.first_part, head),
              ceil_div(r.seq_len, plan.header.positions_per_part),
              out);
  }
}

}  // namespace reprise::kernels::cuda
