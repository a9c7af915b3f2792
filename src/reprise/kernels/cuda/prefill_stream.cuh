#pragma once

#include "reprise/kernels/cuda/attention_tile.cuh"

// The keys and values of a tile of a prompt, on their way through shared memory.
namespace reprise::kernels::cuda {

/// Rows of 16-bit elements in shared memory. The order of the sixteen-byte chunks of a row differs
/// between eight neighbouring rows. So both access patterns use all 32 banks exactly once: the same
/// chunk of eight rows (a load for the tensor cores) and eight chunks of one row (a copy by eight
/// lanes).
template <int kHeadDim>
struct SharedRows {
  static constexpr int kChunks = kHeadDim / 8;
  static_assert(kChunks % 8 == 0);

  char* rows;

  [[nodiscard]] REPRISE_DEVICE char* chunk(int row, int index) const {
    return rows + row * (kHeadDim * 2) + (index ^ row % 8) * 16;
  }
};

/// The address that a lane passes to load fragments: a row of SharedRows, and a chunk of it that
/// changes. Rows lie at multiples of their size, so one exclusive or gives the chunk, and no
/// further register is needed.
class FragmentAddress {
 public:
  /// \pre index < 2
  template <int kHeadDim>
  REPRISE_DEVICE FragmentAddress(const SharedRows<kHeadDim>& rows, int row, int index)
      : first_(shared_address(rows.chunk(row, index))) {}

  /// The address in the row `rows_further` rows on (a multiple of eight), in chunk index + 2 pair.
  template <int kHeadDim>
  [[nodiscard]] REPRISE_DEVICE uint32_t at(int rows_further, int pair) const {
    return (first_ ^ static_cast<uint32_t>(pair * 32)) +
           static_cast<uint32_t>(rows_further * kHeadDim * 2);
  }

 private:
  uint32_t first_;
};

/// A block's rows and positions in few registers, because all of it is alive through the loop.
struct PrefillTile {
  int request;
  int kv_head;
  int first_context;  // positions that the request's first token sees
  int first_row;      // relative to the request's first row
  int num_rows;       // 0: no work
  int begin;          // positions
  int end;

  [[nodiscard]] REPRISE_DEVICE int context_of(int row, int group_size) const {
    return first_context + (first_row + row) / group_size;
  }
  /// The index of a row's first element in a tensor of tokens and heads.
  [[nodiscard]] REPRISE_DEVICE int64_t element_of(const AttentionKernelArguments& a,
                                                  int row,
                                                  int64_t token_stride,
                                                  int64_t head_stride) const {
    const auto group_size = static_cast<int>(a.group_size);
    const int index = first_row + row;
    return (a.query_start_loc[request] + index / group_size) * token_stride +
           (kv_head * group_size + index % group_size) * head_stride;
  }
};

// Eight lanes copy a row, so each copy covers 128 bytes, one cache line.
inline constexpr int kCopyLanes = 8;
inline constexpr int kCopyRows = kAttentionThreads / kCopyLanes;

/// Streams the keys and values of a tile, kPositions positions at a time: keys, values, the next
/// keys, ..., through a ring in shared memory. All threads of the block load them and use them in
/// step.
template <typename T, int kHeadDim>
class PrefillStream {
 public:
  using Rows = SharedRows<kHeadDim>;

  /// Copies that were started but not committed before this arrive with the first keys.
  REPRISE_DEVICE PrefillStream(const CudaAttentionArguments& arguments, const PrefillTile& tile)
      : a_(arguments.call), block_bits_(arguments.block_bits), tile_(tile) {
    REPRISE_UNROLL
    for (int ahead = 0; ahead < kAhead; ahead += kPositions) {
      fetch(a_.key_cache, tile.begin + ahead);
      fetch(a_.value_cache, tile.begin + ahead);
    }
  }

  /// The keys from position `first` on. Invalidates the tile that was taken before.
  REPRISE_DEVICE Rows take_keys(int first) { return take(a_.key_cache, first); }
  REPRISE_DEVICE Rows take_values(int first) { return take(a_.value_cache, first); }

 private:
  static constexpr int kPositions = prefill_positions(kHeadDim);
  static_assert(kPositions % kCopyRows == 0);
  static_assert(kPrefillSlots % 2 == 1, "what is fetched is of the kind of what is taken");
  static constexpr int kAhead = kPrefillSlots / 2 * kPositions;

  [[nodiscard]] REPRISE_DEVICE Rows next_slot() const {
    const int rows = kPrefillTileRows + slot_ * kPositions;
    return {shared_memory() + rows * (kHeadDim * 2)};
  }

  REPRISE_DEVICE Rows take(const void* cache, int first) {
    wait_for_copies<kPrefillSlots - 2>();
    sync_block();
    fetch(cache, first + kAhead);
    return next_slot();  // the slot that was filled first
  }

  REPRISE_DEVICE void fetch(const void* cache, int first) {
    if (first < tile_.end) {
      const Rows to = next_slot();
      const int32_t* blocks = a_.block_table + tile_.request * a_.block_table_stride;
      const int lane = thread_index() % kCopyLanes;
      REPRISE_UNROLL
      for (int more = 0; more < kPositions; more += kCopyRows) {
        const int row = more + thread_index() / kCopyLanes;
        const bool there = first + row < tile_.end;
        const int position = there ? first + row : tile_.end - 1;
        const int64_t block = blocks[position >> block_bits_];
        const int64_t cache_row = ((block * a_.kv_heads + tile_.kv_head) << block_bits_) +
                                  (position & ((1 << block_bits_) - 1));
        const T* from = static_cast<const T*>(cache) + cache_row * kHeadDim + lane * 8;
        REPRISE_UNROLL
        for (int chunk = 0; chunk < Rows::kChunks; chunk += kCopyLanes) {
          copy_words_async(to.chunk(row, chunk + lane), from + chunk * 8, there);
        }
      }
    }
    commit_copies();
    slot_ = slot_ + 1 == kPrefillSlots ? 0 : slot_ + 1;
  }

  const AttentionKernelArguments& a_;
  const int& block_bits_;
  const PrefillTile& tile_;
  int slot_ = 0;  // the slot to fill next
};

}  // namespace reprise::kernels::cuda
