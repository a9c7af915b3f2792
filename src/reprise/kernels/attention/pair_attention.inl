// Attention of bfloat16 with products of pairs (vdpbf16ps): attend_positions() for queries and a
// cache of bfloat16. It needs half as many multiplications as LaneAttention. In scores, each lane
// multiplies two elements of its position's key at once. In the weighted sums of values, each lane
// multiplies one element of the values of two positions. Weights are rounded to bfloat16, like in
// kernels for GPUs (weights.inl).
//
// This class is for few rows. RowAttention computes the same bits for many rows.
//
// There are two ways through a chunk, with the same bits. Usually, transposed keys and interleaved
// values are stored before they are multiplied. A copy reads many lines at once, so it waits for
// memory once. Where keys and values stay in registers, a chunk takes a sixth less time from a
// cache, but more from memory, because tiles wait for one line after the other. If two heads of a
// token take turns (kTakesTurns), their rows are neighbours in memory, which the processor
// prefetches better. Then registers are faster from memory, too.
template <bool kTakesTurns>
class PairAttentionOf : public ChunkAttention<PairAttentionOf<kTakesTurns>, BFloat16> {
  using Chunks = ChunkAttention<PairAttentionOf<kTakesTurns>, BFloat16>;
  friend Chunks;
  using Chunks::count_;
  using Chunks::rows_;

 public:
  /// Whether pairs can be used for these sizes. This depends on the model only.
  static bool fits(const AttentionKernelArguments& a) {
    return a.cache.type == CacheType::like_model && a.head_dim % kStep == 0 &&
           a.value_dim % kStep == 0;
  }

  PairAttentionOf(const AttentionRows& rows, AttentionState& state)
      : Chunks(rows), state_(state), value_dim_(rows.a.value_dim), rule_(rows.a) {
    const BFloat16* queries[kMaxAttentionRows];
    for (int r = 0; r < kMaxAttentionRows; ++r) {
      queries[r] = rows_.template q<BFloat16>(r < count_ ? r : 0);
    }
    transpose_pairs(queries, 0, count_, 0, rows_.a.head_dim, queries_);
  }

  /// See attend_positions. The state of all rows has begun.
  void run(int64_t begin, int64_t end) {
    use_powers_of_two(state_.maxima, count_);
    Chunks::run(begin, end);
    use_powers_of_e(state_.maxima, count_);
  }

  /// Whether the heads of a token should take turns: their rows fit into one tile, and those of a
  /// head in a cache block are less than a page.
  static bool fits_turns(const AttentionKernelArguments& a) {
    constexpr int64_t kPage = 4096;  // bytes; prefetches of the processor end there
    const int64_t row_bytes = a.head_dim * static_cast<int64_t>(sizeof(BFloat16));
    return fits(a) && a.group_size <= kAttentionTileRows && a.block_size * row_bytes < kPage &&
           a.kv_head_stride == a.block_size * a.head_dim;
  }
  /// run() for two heads of one token, chunk by chunk.
  static void run_in_turns(PairAttentionOf& first,
                           PairAttentionOf& second,
                           int64_t begin,
                           int64_t end) {
    PairAttentionOf* heads[] = {&first, &second};
    for (PairAttentionOf* head : heads) use_powers_of_two(head->state_.maxima, head->count_);
    typename Chunks::Pointers pointers[] = {first.pointers_of_first_chunk(begin, end),
                                            second.pointers_of_first_chunk(begin, end)};
    for (int64_t chunk = begin / kChunk * kChunk; chunk < end; chunk += kChunk) {
      for (int h = 0; h < 2; ++h) heads[h]->attend_to(pointers[h], chunk, begin, end);
    }
    for (PairAttentionOf* head : heads) use_powers_of_e(head->state_.maxima, head->count_);
  }

 private:
  using Pairs = Dot<BFloat16>;
  static constexpr int kVecs = kAttentionTileVecs;
  static constexpr int kPositions = kVecs * kLanes;  // of a tile of scores
  static constexpr int kStep = 2 * kLanes;
  // The number of pairs of all keys that stay together in the first-level cache.
  static constexpr int64_t kPairsAtOnce = 64;
  static constexpr int kChunkPairs = kChunk / 2;

  void ask_for_keys(const CacheLines& lines) { keys_ahead_ = lines; }

  /// Pair i * kChunk + r of `lines` is pair `from` / 2 + i of row r, for the vectors that contain a
  /// row of [begin, end).
  static __attribute__((noinline)) void transpose_pairs(const BFloat16* const* rows,
                                                        int begin,
                                                        int end,
                                                        int64_t from,
                                                        int64_t num_elements,
                                                        BFloat16* lines) {
    for (int r = begin / kLanes * kLanes; r < end; r += kLanes) {
      for (int64_t i = 0; i < num_elements; i += kStep) {
        Vec pairs[kLanes];
        load_transposed(rows + r, from + i, pairs);
#pragma GCC unroll 16
        for (int l = 0; l < kLanes; ++l) {
          store_words(lines + 2 * ((i / 2 + l) * kChunk + r), pairs[l]);
        }
      }
    }
  }

  void compute_scores(const BFloat16* const* keys, int begin, int end) {
    if constexpr (kTakesTurns) {
      for_numbers<1, kAttentionTileRows + 1>([&](auto rows) REPRISE_LAMBDA_INLINE {
        if (count_ != rows.value) return;
        for (int p = 0; p < kChunk; p += kLanes) multiply_keys<rows.value>(keys, p);
      });
      return;
    }
    const int64_t head_dim = rows_.a.head_dim;
    const int first = begin / kPositions * kPositions;
    const auto last = static_cast<int>(ceil_div(end, kPositions) * kPositions);
    for (int64_t i = 0; i < head_dim; i += 2 * kPairsAtOnce) {
      const int64_t num_elements = min_of(2 * kPairsAtOnce, head_dim - i);
      transpose_pairs(keys, first, last, i, num_elements, keys_);
      LaneTiles::for_row_tiles(0, count_, [&](int row, auto rows) REPRISE_LAMBDA_INLINE {
        for (int p = first; p < last; p += kPositions) {
          add_product_tile<rows.value>(row, p, i / 2, num_elements / 2);
        }
      });
    }
  }

  /// The scores of a single tile of rows with 16 positions. The transposed keys stay in registers.
  template <int kRows>
  __attribute__((noinline)) void multiply_keys(const BFloat16* const* keys, int position) {
    CacheLines ahead = keys_ahead_;
    Vec sums[kRows];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) sums[r] = zero();
    const BFloat16* queries = queries_;
    for (int64_t i = 0; i < rows_.a.head_dim; i += kStep) {
      Vec pairs[kLanes];
      load_transposed(keys + position, i, pairs);
#pragma GCC unroll 16
      for (int l = 0; l < kLanes; ++l) {
        const Pairs::Packet key = Pairs::packet_of(pairs[l]);
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) {
          sums[r] = Pairs::accumulate(key, Pairs::broadcast_pair(queries + 2 * r), sums[r]);
        }
        queries += 2 * kMaxAttentionRows;
        ahead.prefetch_next();
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) store(state_.scores[r] + position, sums[r]);
    keys_ahead_ = ahead;
  }

  template <int kRows>
  __attribute__((noinline)) void add_product_tile(int row,
                                                  int position,
                                                  int64_t pair,
                                                  int64_t num_pairs) {
    float* scores = state_.scores[row] + position;
    const BFloat16* queries = queries_ + 2 * (pair * kMaxAttentionRows + row);
    const BFloat16* keys = keys_ + 2 * position;
    CacheLines ahead = keys_ahead_;
    Vec sums[kRows][kVecs];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
      for (int v = 0; v < kVecs; ++v) {
        sums[r][v] = pair == 0 ? zero() : load(scores + r * kChunk + v * kLanes);
      }
    }
    for (int64_t i = 0; i < num_pairs; ++i) {
      Pairs::Packet key[kVecs];
#pragma GCC unroll 8
      for (int v = 0; v < kVecs; ++v)
        key[v] = Pairs::load_packet(keys + 2 * (i * kChunk + v * kLanes));
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const Pairs::Packet query =
            Pairs::broadcast_pair(queries + 2 * (i * kMaxAttentionRows + r));
#pragma GCC unroll 8
        for (int v = 0; v < kVecs; ++v) sums[r][v] = Pairs::accumulate(key[v], query, sums[r][v]);
      }
      ahead.prefetch_next();
      ahead.prefetch_next();
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
      for (int v = 0; v < kVecs; ++v) store(scores + r * kChunk + v * kLanes, sums[r][v]);
    }
    keys_ahead_ = ahead;
  }

  /// values_[i][column] = the element `column` of positions 2 * i and 2 * i + 1.
  void begin_values(const ChunkPointers<BFloat16>& pointers,
                    const BFloat16* const*,
                    int begin,
                    int end) {
    if constexpr (kTakesTurns) return;
    for (int p = begin / 2; 2 * p < end; ++p) {
      const BFloat16* first = pointers.values[2 * p];
      const BFloat16* second = pointers.values[2 * p + 1];
      BFloat16* to = values_ + 2 * p * value_dim_;
      for (int64_t c = 0; c < value_dim_; c += kStep) interleave(to + 2 * c, first + c, second + c);
    }
  }

  /// Updates rows [row, row + count), which see positions [begin, end) of the chunk.
  void update_rows(const BFloat16* const* values,
                   const BFloat16* const* ahead,
                   int row,
                   int count,
                   int begin,
                   int end) {
    update_pair_softmax(state_, weights_, row, count, begin, end, rule_);
    if constexpr (kTakesTurns) return add_values(values, ahead, row, count, begin, end);
    const BFloat16* lines[kChunkPairs];
    for (int p = begin / 2; 2 * p < end; ++p) lines[p] = values_ + 2 * p * value_dim_;
    // A row does not see one position of these pairs, and the value of this position could be
    // infinite.
    if (begin % 2 != 0) lines[begin / 2] = half_of(lines[begin / 2], 1, half_pairs_[0]);
    if (end % 2 != 0) lines[end / 2] = half_of(lines[end / 2], 0, half_pairs_[1]);
    LaneTiles::for_row_tiles(row, count, [&](int first, auto rows) REPRISE_LAMBDA_INLINE {
      for (int64_t column = 0; column < value_dim_; column += kVecs * kLanes) {
        add_value_tile<rows.value>(lines, ahead, first, begin / 2, (end + 1) / 2, column);
      }
    });
  }

  /// Adds the weighted values of positions [begin, end), which are interleaved in registers.
  void add_values(const BFloat16* const* values,
                  const BFloat16* const* ahead,
                  int row,
                  int count,
                  int begin,
                  int end) {
    const BFloat16* seen[kChunk];
    __builtin_memcpy(seen, values, sizeof seen);
    // A row does not see one position of these pairs, and the value of this position could be
    // infinite.
    if (begin % 2 != 0) seen[begin - 1] = kZeros;
    if (end % 2 != 0) seen[end] = kZeros;
    for_numbers<1, kAttentionTileRows + 1>([&](auto rows) REPRISE_LAMBDA_INLINE {
      if (count != rows.value) return;
      for (int64_t column = 0; column < value_dim_; column += kStep) {
        add_value_rows<rows.value>(seen, ahead, row, begin / 2, (end + 1) / 2, column);
      }
    });
  }

  template <int kRows>
  __attribute__((noinline)) void add_value_rows(const BFloat16* const* values,
                                                const BFloat16* const* ahead,
                                                int row,
                                                int begin,
                                                int end,
                                                int64_t column) {
    float* all_sums = state_.sums + row * value_dim_ + column;
    Vec sums[kRows][2];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const Vec correction = broadcast(state_.corrections[row + r]);
#pragma GCC unroll 2
      for (int v = 0; v < 2; ++v) {
        sums[r][v] = mul(load(all_sums + r * value_dim_ + v * kLanes), correction);
      }
    }
    for (int p = begin; p < end; ++p) {
      Pairs::Packet value[2];
      interleave(values[2 * p] + column, values[2 * p + 1] + column, value);
      __builtin_prefetch(ahead[2 * p] + column, 0, kPrefetchLevel);
      __builtin_prefetch(ahead[2 * p + 1] + column, 0, kPrefetchLevel);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const Pairs::Packet weight = Pairs::broadcast_pair(weights_.of[row + r] + 2 * p);
#pragma GCC unroll 2
        for (int v = 0; v < 2; ++v) sums[r][v] = Pairs::accumulate(value[v], weight, sums[r][v]);
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
      for (int v = 0; v < 2; ++v) store(all_sums + r * value_dim_ + v * kLanes, sums[r][v]);
    }
  }

  /// Returns the pairs with either their first (0) or their second (1) elements; the other elements
  /// are zeros.
  const BFloat16* half_of(const BFloat16* pairs, int kept, BFloat16* to) const {
    for (int64_t i = 0; i < value_dim_; ++i) {
      to[2 * i + kept] = pairs[2 * i + kept];
      to[2 * i + 1 - kept] = {};
    }
    return to;
  }

  /// sums[r] = sums[r] * corrections[r] + sum over pairs [begin, end) of weights[r] * values.
  template <int kRows>
  __attribute__((noinline)) void add_value_tile(const BFloat16* const* lines,
                                                const BFloat16* const* ahead,
                                                int row,
                                                int begin,
                                                int end,
                                                int64_t column) {
    const int64_t value_dim = value_dim_;
    float* all_sums = state_.sums + row * value_dim + column;
    Vec sums[kRows][kVecs];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const Vec correction = broadcast(state_.corrections[row + r]);
#pragma GCC unroll 8
      for (int v = 0; v < kVecs; ++v) {
        sums[r][v] = mul(load(all_sums + r * value_dim + v * kLanes), correction);
      }
    }
    for (int p = begin; p < end; ++p) {
      Pairs::Packet value[kVecs];
#pragma GCC unroll 8
      for (int v = 0; v < kVecs; ++v) {
        value[v] = Pairs::load_packet(lines[p] + 2 * (column + v * kLanes));
      }
      __builtin_prefetch(ahead[2 * p] + column, 0, kPrefetchLevel);
      __builtin_prefetch(ahead[2 * p + 1] + column, 0, kPrefetchLevel);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const Pairs::Packet weight = Pairs::broadcast_pair(weights_.of[row + r] + 2 * p);
#pragma GCC unroll 8
        for (int v = 0; v < kVecs; ++v)
          sums[r][v] = Pairs::accumulate(value[v], weight, sums[r][v]);
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
      for (int v = 0; v < kVecs; ++v) store(all_sums + r * value_dim + v * kLanes, sums[r][v]);
    }
  }

  alignas(64) static constexpr BFloat16 kZeros[kMaxAttentionHeadDim] = {};

  AttentionState& state_;
  int64_t value_dim_;
  ScoreRule rule_;
  CacheLines keys_ahead_;                                                  // of the next chunk
  alignas(64) BFloat16 queries_[kMaxAttentionKeyDim * kMaxAttentionRows];  // [pair][row][2]
  alignas(64) BFloat16 keys_[2 * kPairsAtOnce * kChunk];                   // [pair][position][2]
  alignas(64) BFloat16 values_[kChunk * kMaxAttentionHeadDim];             // [pair][column][2]
  alignas(64) BFloat16 half_pairs_[2][2 * kMaxAttentionHeadDim];
  RoundedWeights weights_;
};

using PairAttention = PairAttentionOf<false>;
using HeadInTurn = PairAttentionOf<true>;
