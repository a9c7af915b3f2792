#pragma once

#include "reprise/kernels/cuda/attention_kernels.cuh"

// Attention for requests with many tokens: a block computes 128 rows, each warp 32 of them, over
// tiles of keys and values that pass through shared memory. See attention_kernels.cuh for rows and
// parts. Source: Dao, FlashAttention-2 (arXiv 2307.08691), sections 3.1 and 3.3; differs in that
// the heads of a group are rows of one tile, and that keys and values alternate in one ring.
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

/// Two fragments of sixteen rows of one warp, and their partial results. Lane = 4 * group + member
/// holds rows `group` and `group + 8` of each fragment.
template <typename T, int kHeadDim>
class PrefillRows {
 public:
  using Rows = SharedRows<kHeadDim>;

  /// \pre a.scale > 0
  REPRISE_DEVICE PrefillRows(const AttentionKernelArguments& a, const PrefillTile& tile)
      : a_(a), tile_(tile) {
    const int first_row = warp_index() * kPrefillWarpRows;
    const bool has_rows = first_row < tile.num_rows;
    first_context_ = context_of(first_row);
    last_context_ = has_rows ? context_of(first_row + kPrefillWarpRows - 1) : 0;
    REPRISE_UNROLL
    for (int fragment = 0; fragment < 2; ++fragment) {
      REPRISE_UNROLL
      for (int half = 0; half < 2; ++half) {
        largest_[fragment][half] = kLowest;
        totals_[fragment][half] = 0;
      }
    }
  }

  /// Whether at least one row sees at least one of the tile's positions.
  [[nodiscard]] REPRISE_DEVICE bool sees(int first) const {
    return first < last_context_ &&
           (a_.sliding_window == 0 || first + kPositions > first_context_ - a_.sliding_window);
  }

  /// Computes the weights of the tile's positions from their keys.
  REPRISE_DEVICE void score(const Rows& queries, const Rows& keys, int first) {
    const int lane = lane_index();
    float scores[2][kTiles][4] = {};
    const FragmentAddress query(queries, warp_index() * kPrefillWarpRows + lane % 16, lane / 16);
    const FragmentAddress key(keys, lane / 16 * 8 + lane % 8, lane / 8 % 2);
    REPRISE_UNROLL_BY_4  // a complete unrolling of 128 elements needs too many registers
        for (int step = 0; step < kHeadDim / 16; ++step) {
      uint32_t left[2][4];
      REPRISE_UNROLL
      for (int fragment = 0; fragment < 2; ++fragment) {
        load_fragments(left[fragment], query.at<kHeadDim>(fragment * 16, step));
      }
      REPRISE_UNROLL
      for (int tile = 0; tile < kTiles; tile += 2) {
        uint32_t right[4];
        load_fragments(right, key.at<kHeadDim>(tile * 8, step));
        multiply(scores, tile, left, right);
      }
    }
    const int seen_by_all = first_context_ < tile_.end ? first_context_ : tile_.end;
    const bool has_unseen = first + kPositions > seen_by_all ||
                            (a_.sliding_window > 0 && first < last_context_ - a_.sliding_window);
    if (has_unseen) hide_unseen(scores, first);
    weigh(scores);
  }

  /// Adds the values of the positions of the last score() call.
  REPRISE_DEVICE void add(const Rows& values) {
    const FragmentAddress value(values, lane_index() % 16, lane_index() / 16);
    REPRISE_UNROLL
    for (int step = 0; step < kPositions / 16; ++step) {
      uint32_t left[2][4];
      REPRISE_UNROLL
      for (int fragment = 0; fragment < 2; ++fragment) {
        REPRISE_UNROLL
        for (int i = 0; i < 4; ++i) left[fragment][i] = weights_[fragment][step * 2 + i / 2][i % 2];
      }
      REPRISE_UNROLL
      for (int column = 0; column < kColumnTiles; column += 2) {
        uint32_t right[4];
        load_fragments_transposed(right, value.at<kHeadDim>(step * 16, column / 2));
        multiply(sums_, column, left, right);
      }
    }
  }

  /// Adds up the sums of the four lanes of a row, each over its own positions.
  REPRISE_DEVICE void finish() {
    REPRISE_UNROLL
    for (int fragment = 0; fragment < 2; ++fragment) {
      REPRISE_UNROLL
      for (int half = 0; half < 2; ++half) {
        float& total = totals_[fragment][half];
        total += shuffle_xor(total, 1);
        total += shuffle_xor(total, 2);
      }
    }
  }

  /// Writes the results of the warp's rows to `to`.
  REPRISE_DEVICE void leave_results(const Rows& to) const {
    REPRISE_UNROLL
    for (int fragment = 0; fragment < 2; ++fragment) {
      REPRISE_UNROLL
      for (int half = 0; half < 2; ++half) {
        const float total = totals_[fragment][half];
        const float factor = total == 0 ? 0 : 1 / total;
        REPRISE_UNROLL
        for (int column = 0; column < kColumnTiles; ++column) {
          const float (&pair)[4] = sums_[fragment][column];
          auto* place = reinterpret_cast<uint32_t*>(to.chunk(row_of(fragment, half), column));
          place[lane_index() % 4] = pack<T>(pair[half * 2] * factor, pair[half * 2 + 1] * factor);
        }
      }
    }
  }

  /// Writes sums, largest and total of each of the tile's rows to `part`: [rows][kHeadDim + 2].
  REPRISE_DEVICE void leave_part(float* part) const {
    const int member = lane_index() % 4;
    REPRISE_UNROLL
    for (int fragment = 0; fragment < 2; ++fragment) {
      REPRISE_UNROLL
      for (int half = 0; half < 2; ++half) {
        const int row = row_of(fragment, half);
        if (row >= tile_.num_rows) continue;
        float* place = part + row * (kHeadDim + 2);
        REPRISE_UNROLL
        for (int column = 0; column < kColumnTiles; ++column) {
          REPRISE_UNROLL
          for (int i = 0; i < 2; ++i) {
            place[column * 8 + member * 2 + i] = sums_[fragment][column][half * 2 + i];
          }
        }
        if (member == 0) {
          place[kHeadDim] = largest_[fragment][half] * exponent_of_one();
          place[kHeadDim + 1] = totals_[fragment][half];
        }
      }
    }
  }

 private:
  static constexpr int kPositions = prefill_positions(kHeadDim);
  static constexpr int kTiles = kPositions / 8;
  static constexpr int kColumnTiles = kHeadDim / 8;

  [[nodiscard]] static REPRISE_DEVICE int row_of(int fragment, int half) {
    return warp_index() * kPrefillWarpRows + fragment * 16 + half * 8 + lane_index() / 4;
  }

  /// The exponent of 2 for a score of one: its weight relative to a score of zero.
  [[nodiscard]] REPRISE_DEVICE float exponent_of_one() const { return a_.scale * kLog2E; }

  /// Two neighbouring tiles of eight columns, for both fragments of rows.
  template <int kCount>
  static REPRISE_DEVICE void multiply(float (&sums)[2][kCount][4],
                                      int tile,
                                      const uint32_t (&left)[2][4],
                                      const uint32_t (&right)[4]) {
    REPRISE_UNROLL
    for (int i = 0; i < 2; ++i) {
      const uint32_t column[2] = {right[i * 2], right[i * 2 + 1]};
      REPRISE_UNROLL
      for (int fragment = 0; fragment < 2; ++fragment) {
        multiply_fragments<T>(sums[fragment][tile + i], left[fragment], column);
      }
    }
  }

  /// A row after the tile's last row gets the last row's value.
  [[nodiscard]] REPRISE_DEVICE int context_of(int row) const {
    return tile_.context_of(row < tile_.num_rows ? row : tile_.num_rows - 1,
                            static_cast<int>(a_.group_size));
  }

  REPRISE_DEVICE void hide_unseen(float (&scores)[2][kTiles][4], int first) const {
    REPRISE_UNROLL
    for (int fragment = 0; fragment < 2; ++fragment) {
      REPRISE_UNROLL
      for (int half = 0; half < 2; ++half) {
        const int context = context_of(row_of(fragment, half));
        const int limit = context < tile_.end ? context : tile_.end;
        const auto window_begin = static_cast<int>(window_begin_of(a_, context));
        REPRISE_UNROLL
        for (int tile = 0; tile < kTiles; ++tile) {
          REPRISE_UNROLL
          for (int i = 0; i < 2; ++i) {
            const int position = first + tile * 8 + lane_index() % 4 * 2 + i;
            const bool is_seen = position < limit && position >= window_begin;
            float& score = scores[fragment][tile][half * 2 + i];
            score = is_seen ? score : 2 * kLowest;
          }
        }
      }
    }
  }

  /// Converts scores to weights, relative to the largest score so far, two neighbours per word: the
  /// layout of a fragment of sums is the layout of a left operand.
  REPRISE_DEVICE void weigh(float (&scores)[2][kTiles][4]) {
    const float exponent = exponent_of_one();
    REPRISE_UNROLL
    for (int fragment = 0; fragment < 2; ++fragment) {
      REPRISE_UNROLL
      for (int half = 0; half < 2; ++half) {
        float maximum = largest_[fragment][half];
        REPRISE_UNROLL
        for (int tile = 0; tile < kTiles; ++tile) {
          maximum = larger(maximum, scores[fragment][tile][half * 2]);
          maximum = larger(maximum, scores[fragment][tile][half * 2 + 1]);
        }
        maximum = larger(maximum, shuffle_xor(maximum, 1));
        maximum = larger(maximum, shuffle_xor(maximum, 2));
        const float correction =
            fast_exponential_2((largest_[fragment][half] - maximum) * exponent);
        largest_[fragment][half] = maximum;
        const float shift = -maximum * exponent;
        float total = 0;
        REPRISE_UNROLL
        for (int tile = 0; tile < kTiles; ++tile) {
          REPRISE_UNROLL
          for (int i = 0; i < 2; ++i) {
            float& score = scores[fragment][tile][half * 2 + i];
            score = fast_exponential_2(multiply_add(score, exponent, shift));
            total += score;
          }
          const float (&pair)[4] = scores[fragment][tile];
          weights_[fragment][tile][half] = pack<T>(pair[half * 2], pair[half * 2 + 1]);
        }
        totals_[fragment][half] = multiply_add(totals_[fragment][half], correction, total);
        REPRISE_UNROLL
        for (int column = 0; column < kColumnTiles; ++column) {
          sums_[fragment][column][half * 2] *= correction;
          sums_[fragment][column][half * 2 + 1] *= correction;
        }
      }
    }
  }

  const AttentionKernelArguments& a_;
  const PrefillTile& tile_;
  int first_context_;  // of the warp's rows
  int last_context_;
  float largest_[2][2];  // scores, not scaled
  float totals_[2][2];   // only of this lane's positions
  uint32_t weights_[2][kTiles][2];
  float sums_[2][kColumnTiles][4] = {};
};

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
  int split;
  int splits;
  int64_t begin;  // positions
  int64_t end;
};

template <int kHeadDim>
REPRISE_DEVICE PrefillShare prefill_share(const CudaAttentionArguments& arguments, int block) {
  constexpr int kPositions = prefill_positions(kHeadDim);
  const AttentionKernelArguments& a = arguments.call;
  const auto num_splits = static_cast<int>(arguments.num_splits);
  const auto kv_heads = static_cast<int>(a.kv_heads);
  const int split = block % num_splits;
  const int kv_head = block / num_splits % kv_heads;
  // The last tile of a prompt sees the most positions, so it starts first.
  const int tile_index = static_cast<int>(arguments.max_tiles) - 1 - block / num_splits / kv_heads;
  const AttentionTile tile = find_tile(a, tile_index, kPrefillTileRows);
  const int item = tile_index * kv_heads + kv_head;
  if (tile.num_rows == 0) return {tile, kv_head, item, 0, 0, 0, 0};

  const AttentionPositions positions = positions_of(a, tile);
  const int64_t count = positions.end - positions.begin;
  const int64_t splits = max_of(1, min_of(num_splits, ceil_div(count, kLeastPrefillSplit)));
  const int64_t per_split = ceil_div(ceil_div(count, splits), kPositions) * kPositions;
  const int64_t begin = positions.begin + split * per_split;
  return {tile,
          kv_head,
          item,
          split,
          static_cast<int>(splits),
          begin,
          min_of(begin + per_split, positions.end)};
}

/// The same contract as attention_fragments. \pre q and out are aligned to 16 bytes and so are
/// their strides, block_size is 2 to the power of block_bits, scale > 0
template <typename T, int kHeadDim>
REPRISE_DEVICE void prefill_attention(const CudaAttentionArguments& arguments) {
  const AttentionKernelArguments& a = arguments.call;
  zero_padding<T>(a, a.query_start_loc[a.num_reqs]);
  const auto block = static_cast<int>(block_index());
  const PrefillShare share = prefill_share<kHeadDim>(arguments, block);
  if (share.split >= share.splits) return;
  constexpr int kPartSize = kPrefillTileRows * (kHeadDim + 2);
  const auto parts_of = [&](const PrefillShare& s) {
    return arguments.partials + s.item * arguments.num_splits * kPartSize;
  };
  const PrefillTile tile = {static_cast<int>(share.tile.r.request),
                            share.kv_head,
                            static_cast<int>(context_of(share.tile.r, 0)),
                            static_cast<int>(share.tile.first_row),
                            static_cast<int>(share.tile.num_rows),
                            static_cast<int>(share.begin),
                            static_cast<int>(share.end)};
  const bool has_parts = share.splits > 1;
  attend_prefill_tile<T, kHeadDim>(arguments, tile, has_parts, [&] {
    const PrefillShare s = prefill_share<kHeadDim>(arguments, same_again(block));
    return parts_of(s) + s.split * kPartSize;
  });
  if (has_parts) {
    const PrefillShare s = prefill_share<kHeadDim>(arguments, same_again(block));
    merge_when_last<T, kHeadDim>(
        a, s.tile, s.kv_head, s.splits, parts_of(s), kPartSize, arguments.arrived + s.item);
  }
}

}  // namespace reprise::kernels::cuda
