#pragma once

// A tile of sixteen rows by the parts of FlashInfer's kernel for prompts, which it also uses for
// decoding with the tensor cores (CTA_TILE_Q = 16): keys and values pass through shared memory, and
// the four warps of a block take turns with the positions.
// Source: flashinfer 0.7.2 attention/prefill.cuh, BatchPrefillWithPagedKVCacheDevice; differs in
// that positions come from a part of this project's division, and that results leave the registers
// as partial results of this project.
#include <flashinfer/attention/prefill.cuh>

#include "reprise/kernels/cuda/attention_kernels.cuh"
#include "reprise/kernels/cuda/flashinfer_arguments.h"

namespace reprise::kernels::cuda {

template <typename T>
struct NativeOf;
template <>
struct NativeOf<BFloat16> {
  using type = nv_bfloat16;
};
template <>
struct NativeOf<Float16> {
  using type = half;
};
template <typename T>
using Native = typename NativeOf<T>::type;

/// FlashInfer's functions take an "attention variant" with these members. They multiply scores by
/// this scale before exp2.
struct ScaledScores {
  static constexpr bool use_softmax = true;
  float sm_scale_log2;
};

template <typename T, int kHeadDim>
using FewRowsTraits = flashinfer::KernelTraits<flashinfer::MaskMode::kNone,
                                               kAttentionWarpRows,
                                               /*NUM_MMA_Q=*/1,
                                               FlashInferTile{kHeadDim}.steps_per_warp(),
                                               kHeadDim / 16,
                                               kHeadDim / 16,
                                               /*NUM_WARPS_Q=*/1,
                                               kAttentionThreads / kWarpSize,
                                               flashinfer::PosEncodingMode::kNone,
                                               Native<T>,
                                               Native<T>,
                                               Native<T>,
                                               float,
                                               int32_t,
                                               ScaledScores>;

/// The state of a thread. Lane = 4 * group + member holds rows `group` and `group + 8` (`half` 0
/// and 1), and of them the columns 2 * member, the next one, and both plus eight, of each sixteen.
template <typename T, int kHeadDim>
struct FlashInferRows {
  using Traits = FewRowsTraits<T, kHeadDim>;
  using Storage = typename Traits::SharedStorage;
  using Shared = flashinfer::smem_t<Traits::SWIZZLE_MODE_KV>;
  static_assert(!Traits::IsInvalid());
  static_assert(sizeof(Storage) == FlashInferTile{kHeadDim}.shared_bytes());
  static constexpr uint32_t kTilePositions = Traits::CTA_TILE_KV;
  static constexpr int kWarps = kAttentionThreads / kWarpSize;
  static constexpr int kRowsPerLoad = 4;  // positions that a warp loads at a time
  static constexpr int kLoads = kTilePositions / (kWarps * kRowsPerLoad);

  const AttentionKernelArguments& a;
  const AttentionTile& tile;
  int kv_head;
  int context[2];  // of the rows
  int window_begin[2];
  int first;  // positions of the part: [first, first + count)
  int count;
  // FlashInfer reads and writes sixteen bytes at a time.
  alignas(16) float scores[1][Traits::NUM_MMA_KV][8];
  alignas(16) float sums[1][Traits::NUM_MMA_D_VO_TILE][8];
  float largest[1][2];
  float totals[1][2];
  size_t offsets[kLoads];  // of positions in the cache, in elements

  REPRISE_DEVICE FlashInferRows(const AttentionKernelArguments& arguments,
                                const AttentionTile& its_tile,
                                int head,
                                const TilePart& part)
      : a(arguments), tile(its_tile), kv_head(head) {
    const int64_t rows_end = tile.first_row + tile.num_rows;
    REPRISE_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int64_t row = tile.first_row + lane_index() / 4 + half * 8;
      const int64_t token = divide(row, a.group_size).quotient;
      context[half] = row < rows_end ? static_cast<int>(max_of(0, context_of(tile.r, token))) : 0;
      window_begin[half] = static_cast<int>(window_begin_of(a, context[half]));
    }
    const int64_t last_token = divide(rows_end - 1, a.group_size).quotient;
    const int64_t highest = max_of(0, context_of(tile.r, last_token));
    first = static_cast<int>(part.begin * kAttentionWarpRows);
    count = static_cast<int>(max_of(0, min_of(part.end * kAttentionWarpRows, highest) - first));
    flashinfer::init_states<Traits>(ScaledScores{0}, sums, largest, totals);
  }

  /// Starts the copies of the queries; rows that do not exist become zeros.
  REPRISE_DEVICE void load_queries(Shared queries) const {
    constexpr int kChunks = kHeadDim / 8;  // of sixteen bytes
    REPRISE_UNROLL
    for (int i = thread_index(); i < kAttentionWarpRows * kChunks; i += kAttentionThreads) {
      const int row = i / kChunks;
      const int chunk = i % kChunks;
      const bool is_there = row < tile.num_rows;
      const Divided place = divide(tile.first_row + (is_there ? row : 0), a.group_size);
      const auto* q = static_cast<const Native<T>*>(a.q) +
                      (tile.r.first_token + place.quotient) * a.q_token_stride +
                      (kv_head * a.group_size + place.rest) * a.q_head_stride;
      queries.template load_128b_async<flashinfer::cp_async::SharedMemFillMode::kFillZero>(
          Shared::template get_permuted_offset<Traits::UPCAST_STRIDE_Q>(row, chunk),
          q + chunk * 8,
          is_there);
    }
  }

  /// Finds the places of the positions that this thread loads of the tile that begins `begin`
  /// positions after the first one.
  REPRISE_DEVICE void find_positions(int begin) {
    REPRISE_UNROLL
    for (int i = 0; i < kLoads; ++i) {
      const int index = begin + (i * kWarps + warp_index()) * kRowsPerLoad + lane_index() / 8;
      const int64_t row =
          index < count ? cache_row_index(a, tile.r.request, kv_head, first + index) : 0;
      offsets[i] = static_cast<size_t>(row * kHeadDim + lane_index() % 8 * 8);
    }
  }

  /// The scores of the positions from `begin` on become final, except for the scale that
  /// FlashInfer's softmax multiplies, and hidden ones become minus infinity.
  REPRISE_DEVICE void finish_scores(int begin) {
    const int base = begin + warp_index() * static_cast<int>(Traits::NUM_MMA_KV) * 16;
    REPRISE_UNROLL
    for (int step = 0; step < static_cast<int>(Traits::NUM_MMA_KV); ++step) {
      REPRISE_UNROLL
      for (int i = 0; i < 8; ++i) {
        const int index = base + step * 16 + lane_index() % 4 * 2 + i / 4 * 8 + i % 2;
        const int half = i % 4 / 2;
        const int position = first + index;
        const bool is_seen =
            index < count && position >= window_begin[half] && position < context[half];
        float& score = scores[0][step][i];
        if (a.soft_cap > 0) score = soft_capped(score * a.scale, a.soft_cap);
        if (!is_seen) score = Traits::MaskFillValue;
      }
    }
  }

  /// One more score, that of the head's sink, whose value is 0. The largest scores are final now.
  REPRISE_DEVICE void add_sinks() {
    REPRISE_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int row = lane_index() / 4 + half * 8;
      if (row >= tile.num_rows) continue;
      const int64_t head = kv_head * a.group_size + divide(tile.first_row + row, a.group_size).rest;
      const float sink = as_float(static_cast<const T*>(a.sinks)[head]) * kLog2E;
      const float maximum = larger(largest[0][half], sink);
      const float correction = exponential_2(largest[0][half] - maximum);
      totals[0][half] = totals[0][half] * correction + exponential_2(sink - maximum);
      largest[0][half] = maximum;
      REPRISE_UNROLL
      for (int d = 0; d < static_cast<int>(Traits::NUM_MMA_D_VO_TILE); ++d) {
        REPRISE_UNROLL
        for (int i = 0; i < 8; ++i) {
          if (i % 4 / 2 == half) sums[0][d][i] *= correction;
        }
      }
    }
  }

  /// Calls act(row, d, element) for the results; each warp does so for some columns.
  template <typename Act>
  REPRISE_DEVICE void for_each_result(const Act& act) const {
    REPRISE_UNROLL
    for (int d = 0; d < static_cast<int>(Traits::NUM_MMA_D_VO_TILE); ++d) {
      if (d % kWarps != warp_index()) continue;
      REPRISE_UNROLL
      for (int i = 0; i < 8; ++i) {
        const int half = i % 4 / 2;
        const int row = lane_index() / 4 + half * 8;
        if (row >= tile.num_rows) continue;
        act(row,
            d * 16 + lane_index() % 4 * 2 + i / 4 * 8 + i % 2,
            MergedElement{sums[0][d][i], larger(largest[0][half], kLowest), totals[0][half]});
      }
    }
  }
};

/// The queries, and a tile of keys and of values, in shared memory; and where the calling thread
/// reads fragments and writes what it loads. Source: as above.
template <typename T, int kHeadDim>
struct FlashInferShared {
  using Rows = FlashInferRows<T, kHeadDim>;
  using Traits = typename Rows::Traits;
  using Shared = typename Rows::Shared;
  static constexpr uint32_t kStride = Traits::UPCAST_STRIDE_K;

  typename Rows::Storage& storage;
  Rows& rows;
  Native<T>* key_cache;
  Native<T>* value_cache;
  uint32_t lane = static_cast<uint32_t>(lane_index());
  uint32_t warp = static_cast<uint32_t>(warp_index());
  uint32_t read_q = Shared::template get_permuted_offset<kStride>(lane % 16, lane / 16);
  uint32_t read_k = Shared::template get_permuted_offset<kStride>(
      warp * Traits::NUM_MMA_KV * 16 + 8 * (lane / 16) + lane % 8, lane % 16 / 8);
  uint32_t read_v = Shared::template get_permuted_offset<kStride>(
      warp * Traits::NUM_MMA_KV * 16 + lane % 16, lane / 16);
  uint32_t write_k =
      Shared::template get_permuted_offset<kStride>(warp * Rows::kRowsPerLoad + lane / 8, lane % 8);
  uint32_t write_v = write_k;

  REPRISE_DEVICE FlashInferShared(Rows& its_rows, typename Rows::Storage& its_storage)
      : storage(its_storage),
        rows(its_rows),
        key_cache(static_cast<Native<T>*>(const_cast<void*>(rows.a.key_cache))),
        value_cache(static_cast<Native<T>*>(const_cast<void*>(rows.a.value_cache))) {}

  REPRISE_DEVICE void load_queries() {
    rows.load_queries(Shared(storage.q_smem));
    flashinfer::cp_async::commit_group();
  }
  /// Starts the copies of the keys, or of the values, that rows.find_positions(begin) found.
  template <bool kValues>
  REPRISE_DEVICE void load(int begin) {
    flashinfer::page_produce_kv<kValues, Traits>(&storage,
                                                 kValues ? &write_v : &write_k,
                                                 kValues ? value_cache : key_cache,
                                                 static_cast<uint32_t>(begin),
                                                 rows.offsets,
                                                 static_cast<uint32_t>(rows.count),
                                                 warp,
                                                 lane);
    flashinfer::cp_async::commit_group();
  }
  REPRISE_DEVICE void score() {
    Shared queries(storage.q_smem);
    Shared keys(storage.k_smem);
    flashinfer::compute_qk<Traits>(&queries, &read_q, &keys, &read_k, nullptr, lane, rows.scores);
  }
  REPRISE_DEVICE void add_values() {
    Shared values(storage.v_smem);
    flashinfer::compute_sfm_v<Traits>(
        &values, &read_v, nullptr, lane, rows.scores, rows.sums, rows.totals);
  }
  REPRISE_DEVICE void add_warps() {
    flashinfer::threadblock_sync_mdo_states<Traits>(
        rows.sums, &storage, rows.largest, rows.totals, warp, lane, dim3(lane, 0, warp));
  }
};

/// The contract of attend_tile(), for tiles of up to sixteen rows.
template <typename T, int kHeadDim, typename Act>
REPRISE_DEVICE void attend_tile_by_flashinfer(const AttentionKernelArguments& a,
                                              const AttentionTile& tile,
                                              int kv_head,
                                              const TilePart& part,
                                              const Act& act) {
  using Rows = FlashInferRows<T, kHeadDim>;
  using Traits = typename Rows::Traits;
  constexpr auto kTilePositions = static_cast<int>(Rows::kTilePositions);
  const ScaledScores variant{a.soft_cap > 0 ? kLog2E : a.scale * kLog2E};
  Rows rows(a, tile, kv_head, part);
  FlashInferShared<T, kHeadDim> shared(rows,
                                       *reinterpret_cast<typename Rows::Storage*>(shared_memory()));
  shared.load_queries();
  rows.find_positions(0);
  shared.template load</*kValues=*/false>(0);
  shared.template load</*kValues=*/true>(0);
  for (int begin = 0; begin < rows.count; begin += kTilePositions) {
    const int next = begin + kTilePositions;
    rows.find_positions(next);
    flashinfer::cp_async::wait_group<1>();
    sync_block();
    shared.score();
    rows.finish_scores(begin);
    flashinfer::update_mdo_states<Traits>(
        variant, rows.scores, rows.sums, rows.largest, rows.totals);
    sync_block();  // all warps have read the keys
    shared.template load</*kValues=*/false>(next);
    flashinfer::cp_async::wait_group<1>();
    sync_block();
    shared.add_values();
    sync_block();  // all warps have read the values
    shared.template load</*kValues=*/true>(next);
  }
  flashinfer::cp_async::wait_group<0>();
  sync_block();
  flashinfer::finalize_m<Traits>(variant, rows.largest);
  shared.add_warps();
  if (a.sinks != nullptr && part.is_first) rows.add_sinks();
  rows.for_each_result(act);
}

/// The contract of attention_fragments. \pre q is aligned to 16 bytes and so are its strides;
/// the division is by_context_in_small
template <typename T, int kHeadDim>
REPRISE_DEVICE void flashinfer_attention(const CudaAttentionArguments& arguments) {
  attend_shares<T, kHeadDim>(
      arguments,
      arguments.is_uniform != 0,
      [](const auto& a, const auto& tile, int kv_head, const auto& part, const auto& act) {
        attend_tile_by_flashinfer<T, kHeadDim>(a, tile, kv_head, part, act);
      });
}

}  // namespace reprise::kernels::cuda
