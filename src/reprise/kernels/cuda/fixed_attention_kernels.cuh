#pragma once

#include "reprise/kernels/cuda/attention_kernels.cuh"

// Attention whose bits do not depend on the batch, for any number of rows: a token has the same
// bits in a prompt, in a chunk of a prompt, after a cached prefix and while decoding.
//
// Parts begin at multiples of kFixedPartSteps. All warps of a block share sixteen rows, and the
// warps take the steps of a part in turn. So the step, the warp and the part of a position depend
// on the position only. A step that a row does not see adds zeros, and its largest score stays: it
// changes no bit. Parts are added one after the other, by one block or by the last of several.
namespace reprise::kernels::cuda {

/// Adds a part to the sum of the parts before it.
REPRISE_DEVICE MergedElement add_part(const MergedElement& before, const MergedElement& part) {
  const float largest = part.largest > before.largest ? part.largest : before.largest;
  const float keep = exponential_2(before.largest - largest);
  const float weight = exponential_2(part.largest - largest);
  return {multiply_add(part.sum, weight, before.sum * keep),
          largest,
          multiply_add(part.total, weight, before.total * keep)};
}

/// The sums of a tile's parts so far, in shared memory behind the sums of the warps: [16][kHeadDim
/// + 3] floats. The largest score has two places, because the threads of a row still read the old
/// one while the new one is written.
template <int kHeadDim>
class PartSums {
 public:
  REPRISE_DEVICE explicit PartSums(float* memory) : sums_(memory) {}

  REPRISE_DEVICE void clear() {
    for (int i = thread_index(); i < kAttentionWarpRows * kRowSize; i += num_threads()) {
      sums_[i] = i % kRowSize > kHeadDim ? kLowest : 0.0F;
    }
  }
  /// `number`: of the part, among those that were added.
  REPRISE_DEVICE void add(int number, int row, int d, const MergedElement& part) {
    float* sums = sums_ + row * kRowSize;
    float* largest = sums + kHeadDim + 1;
    const MergedElement sum =
        add_part({sums[d], largest[number % 2], d == 0 ? sums[kHeadDim] : 0.0F}, part);
    sums[d] = sum.sum;
    if (d > 0) return;
    sums[kHeadDim] = sum.total;
    largest[(number + 1) % 2] = sum.largest;
  }
  [[nodiscard]] REPRISE_DEVICE MergedElement get(int row, int d) const {
    return {sums_[row * kRowSize + d], 0, sums_[row * kRowSize + kHeadDim]};
  }

 private:
  static constexpr int kRowSize = kHeadDim + 3;
  float* sums_;
};

/// Calls act(row, d, element) for the results of a tile in the part with this number.
template <typename T, int kHeadDim, typename Act>
REPRISE_DEVICE void attend_fixed_part(const AttentionKernelArguments& a,
                                      const AttentionTile& tile,
                                      int64_t kv_head,
                                      int64_t part,
                                      const Act& act) {
  constexpr int kWarps = kAttentionThreads / kWarpSize;
  static_assert(kFixedPartSteps % kWarps == 0);
  const AttentionSteps steps = steps_of(a, tile);
  const int64_t begin = part * kFixedPartSteps;
  // Steps that no row sees are left out, as many as leave each step to its warp.
  const int64_t unseen = max_of(0, steps.first - begin) / kWarps * kWarps;
  const int64_t end = min_of(begin + kFixedPartSteps, steps.first + steps.count);
  attend_tile<T, kHeadDim, CacheElements::of_model>(
      a, tile, kv_head, {begin + unseen, end, false}, act);
}

/// One block computes all parts of a tile.
template <typename T, int kHeadDim>
REPRISE_DEVICE void attend_whole_tile(const AttentionKernelArguments& a,
                                      const AttentionTile& tile,
                                      int64_t kv_head,
                                      float* memory) {
  PartSums<kHeadDim> sums(memory);
  sums.clear();
  const AttentionSteps steps = steps_of(a, tile);
  const int64_t first = steps.first / kFixedPartSteps;
  const int64_t end = ceil_div(steps.first + steps.count, kFixedPartSteps);
  int number = 0;
  for (int64_t part = first; part < end; ++part, ++number) {
    sync_block();  // the sums of the warps may still be read
    attend_fixed_part<T, kHeadDim>(
        a, tile, kv_head, part, [&](int row, int d, const MergedElement& merged) {
          sums.add(number, row, d, merged);
        });
  }
  sync_block();
  for (int i = thread_index(); i < static_cast<int>(tile.num_rows) * kHeadDim; i += num_threads()) {
    const int row = i / kHeadDim;
    store_attention<T>(a, tile, kv_head, row, i % kHeadDim, sums.get(row, i % kHeadDim));
  }
}

/// Adds the parts of a tile, which lie part_size floats apart, in their order, and stores the
/// results.
template <typename T, int kHeadDim>
REPRISE_DEVICE void add_fixed_parts(const AttentionKernelArguments& a,
                                    const AttentionTile& tile,
                                    int64_t kv_head,
                                    int num_parts,
                                    const float* parts,
                                    int64_t part_size) {
  for (int i = thread_index(); i < static_cast<int>(tile.num_rows) * kHeadDim; i += num_threads()) {
    const int row = i / kHeadDim;
    const int d = i % kHeadDim;
    MergedElement sum = {0, kLowest, 0};
    for (int part = 0; part < num_parts; ++part) {
      const float* from = parts + part * part_size + row * (kHeadDim + 2);
      sum = add_part(
          sum,
          {load_fresh(from + d), load_fresh(from + kHeadDim), load_fresh(from + kHeadDim + 1)});
    }
    store_attention<T>(a, tile, kv_head, row, d, sum);
  }
}

template <typename T, int kHeadDim>
REPRISE_DEVICE void attend_fixed_share(const CudaAttentionArguments& arguments,
                                       const AttentionShare& share,
                                       int kv_head) {
  constexpr int kRowSize = kHeadDim + 2;
  constexpr int kWarpSums = kAttentionThreads / kWarpSize * kAttentionWarpRows * kRowSize;
  const AttentionKernelArguments& a = arguments.call;
  const AttentionTile& tile = share.tile;
  if (share.num_parts == 1) {
    attend_whole_tile<T, kHeadDim>(
        a, tile, kv_head, reinterpret_cast<float*>(shared_memory()) + kWarpSums);
    return;
  }
  const int64_t first =
      window_begin_of(a, max_of(0, context_of(tile.r, 0))) / (kAttentionWarpRows * kFixedPartSteps);
  const int64_t first_row =
      share.first_partial_row * a.kv_heads + kv_head * share.num_parts * tile.num_rows;
  float* parts = arguments.partials + first_row * kRowSize;
  attend_fixed_part<T, kHeadDim>(
      a, tile, kv_head, first + share.part, [&](int row, int d, const MergedElement& merged) {
        float* place = parts + (share.part * tile.num_rows + row) * kRowSize;
        place[d] = merged.sum;
        if (d > 0) return;
        place[kHeadDim] = merged.largest;
        place[kHeadDim + 1] = merged.total;
      });
  int32_t* arrived = arguments.arrived + first_row;
  if (!arrives_last(share.num_parts, arrived)) return;
  add_fixed_parts<T, kHeadDim>(a, tile, kv_head, share.num_parts, parts, tile.num_rows * kRowSize);
  if (thread_index() == 0) *arrived = 0;  // for the next launch
}

/// The contract of attention_fragments. \pre no sinks, and a cache of q's type
template <typename T, int kHeadDim>
REPRISE_DEVICE void fixed_attention(const CudaAttentionArguments& arguments) {
  const AttentionKernelArguments& a = arguments.call;
  zero_padding<T>(a, a.query_start_loc[a.num_reqs]);
  const auto kv_heads = static_cast<int>(a.kv_heads);
  const BatchWork work = batch_work<false>(arguments);
  const int units = work.units * kv_heads;
  const auto per_block = static_cast<int>(ceil_div(units, grid_size()));
  const int first = static_cast<int>(block_index()) * per_block;
  const int end = static_cast<int>(min_of(first + per_block, units));
  for (int unit = first; unit < end; ++unit) {
    if (unit > first) sync_block();  // the shared memory may still be read
    attend_fixed_share<T, kHeadDim>(
        arguments, find_share<false>(arguments, unit / kv_heads, work.halvings), unit % kv_heads);
  }
}

}  // namespace reprise::kernels::cuda
