#pragma once

#include "reprise/kernels/cuda/attention_kernels.cuh"
#include "reprise/kernels/cuda/latent_tile.cuh"

// Latent attention on the tensor cores. Work is divided as for decoding (attention_share.cuh), for
// prompts as well: the parts of a request depend on its own rows and positions. A row has the same
// bits in tiles of every size, so launches choose tiles by speed alone.
namespace reprise::kernels::cuda {

/// Partial results of a tile's parts, or of some of them.
template <int kValueDim>
struct LatentParts {
  static constexpr int kFloats = latent_part_floats(kValueDim);

  float* first;  // the rows of the first part
  int count;
  int part_floats;  // from a part to the next one

  [[nodiscard]] REPRISE_DEVICE float* row(int part, int row) const {
    return first + part * part_floats + row * kFloats;
  }
};

/// Calls act(row, column) for each four columns of the tile's rows; threads share the work.
template <int kValueDim, typename Act>
REPRISE_DEVICE void for_each_four(int num_rows, const Act& act) {
  for (int i = thread_index(); i < num_rows * (kValueDim / 4); i += kLatentThreads) {
    act(i / (kValueDim / 4), i % (kValueDim / 4) * 4);
  }
}

/// Stores four columns of a result. \pre rows of the result are aligned to 16 bytes
template <typename T>
REPRISE_DEVICE void store_latent(const AttentionKernelArguments& a,
                                 const LatentRows& rows,
                                 int row,
                                 int column,
                                 const float (&sums)[4],
                                 float total) {
  T* out =
      static_cast<T*>(a.out) + column + rows.element(a, row, a.out_token_stride, a.out_head_stride);
  const float factor = total > 0 ? 1 / total : 0.0F;
  *reinterpret_cast<Words2*>(out) = {
      {pack<T>(sums[0] * factor, sums[1] * factor), pack<T>(sums[2] * factor, sums[3] * factor)}};
}

/// Adds parts, in their order, and calls act(row, column, sums, largest, total) for each four
/// columns. The largest scores and totals of the first part may be overwritten by act.
template <int kValueDim, typename Act>
REPRISE_DEVICE void merge_latents(int num_rows,
                                  const LatentParts<kValueDim>& parts,
                                  const Act& act) {
  constexpr int kLoads = 8;  // of sixteen bytes, that a thread has in flight
  static_assert(kLoads >= kLatentMergedParts);
  auto* weights = reinterpret_cast<float*>(shared_memory());  // [rows][kLoads]
  float* ends = weights + num_rows * kLoads;                  // [rows][2]: largest, total
  for (int row = thread_index(); row < num_rows; row += num_threads()) {
    float largest = kLowest;
    float of_parts[kLoads][2];
    REPRISE_UNROLL
    for (int i = 0; i < kLoads; ++i) {
      const bool is_there = i < parts.count;
      const float* ends_of_part = parts.row(is_there ? i : 0, row) + kValueDim;
      of_parts[i][0] = is_there ? load_fresh(ends_of_part) : 2 * kLowest;
      of_parts[i][1] = load_fresh(ends_of_part + 1);
      largest = larger(largest, of_parts[i][0]);
    }
    float total = 0;
    REPRISE_UNROLL
    for (int i = 0; i < kLoads; ++i) {
      const float weight = exponential_2(of_parts[i][0] - largest);
      weights[row * kLoads + i] = weight;
      total = multiply_add(of_parts[i][1], weight, total);
    }
    ends[row * 2] = largest;
    ends[row * 2 + 1] = total;
  }
  sync_block();
  for_each_four<kValueDim>(num_rows, [&](int row, int column) {
    Words4 loaded[kLoads];
    REPRISE_UNROLL
    for (int i = 0; i < kLoads; ++i) {
      loaded[i] = load_fresh_words(parts.row(i < parts.count ? i : 0, row) + column);
    }
    float sums[4] = {};
    REPRISE_UNROLL
    for (int i = 0; i < kLoads; ++i) {
      REPRISE_UNROLL
      for (int j = 0; j < 4; ++j) {
        sums[j] = multiply_add(float_of(loaded[i].word[j]), weights[row * kLoads + i], sums[j]);
      }
    }
    act(row, column, sums, ends[row * 2], ends[row * 2 + 1]);
  });
}

/// Called after a block has written its part of a tile. The last block of up to kLatentMergedParts
/// neighbouring parts adds these, and the last of such blocks adds their results: one block would
/// take longer to read all parts than it took to compute one.
template <typename T, int kValueDim>
REPRISE_DEVICE void merge_latents_when_last(const AttentionKernelArguments& a,
                                            const LatentRows& rows,
                                            const AttentionShare& share,
                                            float* first,
                                            int32_t* arrived) {
  constexpr int kMerged = kLatentMergedParts;
  const int part_floats = rows.num_rows * LatentParts<kValueDim>::kFloats;
  const int group = share.part / kMerged;
  const int num_groups = (share.num_parts + kMerged - 1) / kMerged;
  const int left = share.num_parts - group * kMerged;
  const LatentParts<kValueDim> mine = {
      first + group * kMerged * part_floats, left < kMerged ? left : kMerged, part_floats};
  const LatentParts<kValueDim> groups = {first, num_groups, kMerged * part_floats};
  const auto store = [&](int row, int column, const float (&sums)[4], float, float total) {
    store_latent<T>(a, rows, row, column, sums, total);
  };
  // A tile has as many counters as rows of partial results.
  int32_t* of_group = arrived + group;
  if (!arrives_last(mine.count, of_group)) return;
  if (num_groups == 1) {
    merge_latents(rows.num_rows, mine, store);
  } else {
    merge_latents(rows.num_rows,
                  mine,
                  [&](int row, int column, const float (&sums)[4], float largest, float total) {
                    float* place = mine.row(0, row);
                    store_words(
                        place + column,
                        {{bits_of(sums[0]), bits_of(sums[1]), bits_of(sums[2]), bits_of(sums[3])}});
                    if (column > 0) return;
                    place[kValueDim] = largest;
                    place[kValueDim + 1] = total;
                  });
    if (thread_index() == 0) *of_group = 0;  // for the next launch
    of_group = arrived + num_groups;
    if (!arrives_last(num_groups, of_group)) return;
    merge_latents(rows.num_rows, groups, store);
  }
  if (thread_index() == 0) *of_group = 0;
}

/// One part of a tile.
template <typename T, int kValueDim, int kKeyDim, int kRowSets>
REPRISE_DEVICE void attend_latent_share(const CudaAttentionArguments& arguments,
                                        const AttentionShare& share) {
  using Tile = LatentTile<T, kValueDim, kKeyDim, kRowSets>;
  const AttentionKernelArguments& a = arguments.call;
  const LatentRows rows(share.tile);
  // The positions of a part belong to the request and not to the tile.
  const int64_t steps = ceil_div(share.tile.r.seq_len, int64_t{kAttentionWarpRows});
  const int64_t steps_per_part = divide(steps + share.num_parts - 1, share.num_parts).quotient;
  const auto count = static_cast<int>(steps_per_part) * kAttentionWarpRows;
  const int begin = share.part * count;
  const int context = rows.context(a, rows.num_rows - 1);
  Tile(a, rows, begin, context < begin + count ? context : begin + count).attend();
  const auto sums_at = [](int row, int column) { return load_words(Tile::sums_of(row) + column); };
  if (share.num_parts == 1) {
    for_each_four<kValueDim>(rows.num_rows, [&](int row, int column) {
      const Words4 words = sums_at(row, column);
      const float sums[4] = {float_of(words.word[0]),
                             float_of(words.word[1]),
                             float_of(words.word[2]),
                             float_of(words.word[3])};
      store_latent<T>(a, rows, row, column, sums, Tile::total_of(row));
    });
    return;
  }
  float* first =
      arguments.partials + int64_t{share.first_partial_row} * latent_part_floats(kValueDim);
  for_each_four<kValueDim>(rows.num_rows, [&](int row, int column) {
    float* place = first + (share.part * rows.num_rows + row) * latent_part_floats(kValueDim);
    store_words(place + column, sums_at(row, column));
    if (column > 0) return;
    place[kValueDim] = Tile::largest_of(row);
    place[kValueDim + 1] = Tile::total_of(row);
  });
  merge_latents_when_last<T, kValueDim>(
      a, rows, share, first, arguments.arrived + share.first_partial_row);
}

/// The contract of attention_fragments. \pre one kv head; no windows, chunks, sinks or soft cap; q,
/// cache and out have elements of T, and their rows are aligned to 16 bytes; the division is
/// by_context, or by_context_in_small for tiles of sixteen rows
template <typename T, int kValueDim, int kKeyDim, int kRowSets>
REPRISE_DEVICE void latent_attention(const CudaAttentionArguments& arguments) {
  static_assert(kRowSets * 16 == kAttentionTileRows || kRowSets * 16 == kAttentionWarpRows);
  const AttentionKernelArguments& a = arguments.call;
  const bool is_uniform = arguments.is_uniform != 0;
  zero_padding<T>(a, is_uniform ? a.num_reqs * a.query_len : a.query_start_loc[a.num_reqs]);
  const BatchWork work = is_uniform ? batch_work<true, PartLimit::latents>(arguments)
                                    : batch_work<false, PartLimit::latents>(arguments);
  const auto first = static_cast<int>(block_index());
  for (int unit = first; unit < work.units; unit += static_cast<int>(grid_size())) {
    if (unit > first) sync_block();  // the shared memory may still be read
    // The last tiles of a prompt see the most positions, so they begin first.
    const int number = work.units - 1 - unit;
    attend_latent_share<T, kValueDim, kKeyDim, kRowSets>(
        arguments,
        is_uniform ? find_share<true, PartLimit::latents>(arguments, number, work.halvings)
                   : find_share<false, PartLimit::latents>(arguments, number, work.halvings));
  }
}

}  // namespace reprise::kernels::cuda
