// Attention of bfloat16 with products of pairs, for many rows. It computes the bits of
// PairAttention.
//
// In scores, lanes are rows. The queries are transposed once for all positions, and each pair of a
// key, which is read from the cache as it is, multiplies all rows: keys need no work of their own,
// and the softmax needs no operation across lanes. Several chunks are computed one after the other,
// 32 rows at a time, before their values are added, so the sums of a row are loaded and stored once
// for all these chunks.
class RowAttention {
 public:
  static constexpr int kGroup = 32;  // rows of a tile of scores

  /// Whether this class is faster than PairAttention. Measured at heads of 64 elements: from 14
  /// rows on, if at least 7 of 8 lanes are rows. PairAttention has no room for more than 32 rows.
  static bool fits(const AttentionRows& rows) {
    if (rows.a.biases != nullptr) return false;
    const int count = rows.num_tokens * rows.num_heads;
    const bool fills_lanes = 8 * count >= 7 * ceil_div(count, kLanes) * kLanes;
    return count > kMaxAttentionRows || (count >= kFewestRows && fills_lanes);
  }

  RowAttention(const AttentionRows& rows, AttentionState& state)
      : rows_(rows),
        state_(state),
        rule_(rows.a),
        count_(rows.num_tokens * rows.num_heads),
        padded_(static_cast<int>(ceil_div(count_, kLanes) * kLanes)),
        head_dim_(rows.a.head_dim),
        value_dim_(rows.a.value_dim) {
    for (int row = 0; row < padded_; row += kLanes) pack_queries(row);
    for (int r = count_; r < padded_; ++r) {
      state_.maxima[r] = -__builtin_inff();
      state_.totals[r] = 0;
    }
  }

  /// See attend_positions. The state of all rows has begun.
  void run(int64_t begin, int64_t end) {
    use_powers_of_two(state_.maxima, count_);
    const auto begin_in = [&](int64_t span) { return static_cast<int>(max_of(0, begin - span)); };
    const auto end_in = [&](int64_t span) { return static_cast<int>(min_of(kSpan, end - span)); };
    int64_t span = begin / kSpan * kSpan;
    Pointers pointers(rows_, span, begin_in(span), end_in(span));
    for (; span < end; span += kSpan) {
      Pointers next;
      ahead_[0] = ahead_[1] = {};
      if (span + kSpan < end) {
        const int count = end_in(span + kSpan);
        next = Pointers(rows_, span + kSpan, 0, count);
        ahead_[0] = next.key_lines(count, rows_.a);
        ahead_[1] = next.value_lines(count, rows_.a);
      }
      attend_span(pointers, span, begin_in(span), end_in(span));
      pointers = next;
    }
    use_powers_of_e(state_.maxima, count_);
  }

 private:
  using Pairs = Dot<BFloat16>;
  static constexpr int kChunks = 4;
  static constexpr int kSpan = kChunks * kChunk;
  using Pointers = ChunkPointers<BFloat16, kSpan>;
  static constexpr int kFewestRows = 14;
  static constexpr int kVecs = kAttentionTileVecs;
  static constexpr int kStep = 2 * kLanes;
  static constexpr int kKeys = 8;  // of a tile of scores
  static_assert(kMostRows % kGroup == 0 && kGroup == 2 * kLanes);

  /// [pair][row of the group][2], of the group of a row
  BFloat16* queries_of(int row) { return queries_ + row / kGroup * kGroup * head_dim_; }

  void pack_queries(int row) {
    const BFloat16* queries[kLanes];
    for (int r = 0; r < kLanes; ++r) {
      queries[r] = rows_.q<BFloat16>(static_cast<int>(min_of(row + r, count_ - 1)));
    }
    for (int64_t i = 0; i < head_dim_; i += kStep) {
      Vec pairs[kLanes];
      load_transposed(queries, i, pairs);
#pragma GCC unroll 16
      for (int l = 0; l < kLanes; ++l) {
        store_words(queries_of(row) + 2 * ((i / 2 + l) * kGroup + row % kGroup), pairs[l]);
      }
    }
  }

  void attend_span(const Pointers& pointers, int64_t span, int begin, int end) {
    limits_.find(rows_, span, begin, end, padded_);
    pack_values(pointers, begin, end);
    for (int row = 0; row < padded_; row += kGroup) {
      for (int chunk = begin / kChunk; chunk < kChunks; ++chunk) {
        compute_weights(pointers.keys, chunk, row, begin, end);
      }
    }
    // Tokens that see the same positions of the span are computed together: all tokens, except on
    // the diagonal and at the edge of the window.
    int token = 0;
    while (token < rows_.num_tokens) {
      const int row = token * rows_.num_heads;
      int next = row + rows_.num_heads;
      while (next < count_ && limits_.first[next] == limits_.first[row] &&
             limits_.last[next] == limits_.last[row]) {
        next += rows_.num_heads;
      }
      if (limits_.first[row] < limits_.last[row]) {
        add_values(row,
                   next - row,
                   static_cast<int>(limits_.first[row]),
                   static_cast<int>(limits_.last[row]));
      }
      token = next / rows_.num_heads;
    }
  }

  /// Computes the weights of a group of rows for one chunk of the span.
  void compute_weights(const BFloat16* const* keys, int chunk, int row, int begin, int end) {
    const int last_row = static_cast<int>(min_of(row + kGroup, padded_));
    const int start = chunk * kChunk;
    // Both limits grow from row to row.
    const auto first = static_cast<int>(max_of(max_of(begin, start), limits_.first[row]));
    const auto last =
        static_cast<int>(min_of(min_of(end, start + kChunk), limits_.last[last_row - 1]));
    bool are_corrected = false;
    if (first < last) {
      for (int p = first / kKeys * kKeys; p < last; p += kKeys) {
        if (last_row - row > kLanes) {
          multiply_keys<2>(keys + p, row, p - start);
        } else {
          multiply_keys<1>(keys + p, row, p - start);
        }
      }
      for (int r = row; r < last_row; r += kLanes) {
        are_corrected |= update_rows(chunk, r, first - start, last - start);
      }
    }
    are_corrected_[chunk][row / kGroup] = are_corrected;
  }

  /// Updates the softmax of the rows of a vector for positions [begin, end) of a chunk. Returns
  /// whether a correction is not 1.
  bool update_rows(int chunk, int row, int begin, int end) {
    const ChunkLimits limits(limits_, row, chunk);
    LaneScores scores = {.scores = scores_ + row % kGroup,
                         .score_stride = kGroup,
                         .weights = weights_[chunk * kChunk / 2] + 2 * row,
                         .weight_stride = 2 * kMostRows,
                         .begin = begin / 2 * 2,
                         .end = (end + 1) / 2 * 2,
                         .are_all_seen = false,
                         .first_seen = limits.first,
                         .last_seen = limits.last};
    scores.are_all_seen = limits.contain(scores.begin, scores.end);
    const Vec corrections =
        update_lane_softmax(scores, rule_, state_.maxima + row, state_.totals + row);
    store(corrections_[chunk] + row, corrections);
    return maximum(sub(zero(), corrections)) > -1.0F;
  }

  /// scores_[position][row] = queries x keys, for kKeys positions and kTileVecs vectors of rows
  template <int kTileVecs>
  __attribute__((noinline)) void multiply_keys(const BFloat16* const* keys_at,
                                               int row,
                                               int position) {
    const BFloat16* keys[kKeys];
    for (int p = 0; p < kKeys; ++p) keys[p] = keys_at[p];
    const BFloat16* queries = queries_of(row);
    for (CacheLines& lines : ahead_) {
      for (int i = 0; i < kKeys; ++i) lines.prefetch_next();
    }
    Vec sums[kKeys][kTileVecs];
#pragma GCC unroll 8
    for (int p = 0; p < kKeys; ++p) {
#pragma GCC unroll 2
      for (int v = 0; v < kTileVecs; ++v) sums[p][v] = zero();
    }
    for (int64_t i = 0; i < head_dim_; i += 2) {
      Pairs::Packet query[kTileVecs];
#pragma GCC unroll 2
      for (int v = 0; v < kTileVecs; ++v) {
        query[v] = Pairs::load_packet(queries + i * kGroup + 2 * v * kLanes);
      }
#pragma GCC unroll 8
      for (int p = 0; p < kKeys; ++p) {
        const Pairs::Packet key = Pairs::broadcast_pair(keys[p] + i);
#pragma GCC unroll 2
        for (int v = 0; v < kTileVecs; ++v)
          sums[p][v] = Pairs::accumulate(key, query[v], sums[p][v]);
      }
    }
#pragma GCC unroll 8
    for (int p = 0; p < kKeys; ++p) {
#pragma GCC unroll 2
      for (int v = 0; v < kTileVecs; ++v) {
        store(scores_ + (position + p) * kGroup + v * kLanes, sums[p][v]);
      }
    }
  }

  /// values_[i][column] = the element `column` of positions 2 * i and 2 * i + 1 of the span.
  void pack_values(const Pointers& pointers, int begin, int end) {
    for (int p = begin / 2; 2 * p < end; ++p) {
      const BFloat16* first = pointers.values[2 * p];
      const BFloat16* second = pointers.values[2 * p + 1];
      BFloat16* to = values_ + 2 * p * value_dim_;
      for (int64_t c = 0; c < value_dim_; c += kStep) interleave(to + 2 * c, first + c, second + c);
    }
  }

  /// Adds the values of positions [begin, end) to the sums of some rows, which see all of them.
  void add_values(int row, int count, int begin, int end) {
    const BFloat16* lines[kSpan / 2];
    for (int p = begin / 2; 2 * p < end; ++p) lines[p] = values_ + 2 * p * value_dim_;
    // The rows do not see one position of these pairs, and the value of this position could be
    // infinite.
    if (begin % 2 != 0) lines[begin / 2] = half_of(lines[begin / 2], 1, half_pairs_[0]);
    if (end % 2 != 0) lines[end / 2] = half_of(lines[end / 2], 0, half_pairs_[1]);
    LaneTiles::for_row_tiles(row, count, [&](int first, auto rows) REPRISE_LAMBDA_INLINE {
      for (int64_t column = 0; column < value_dim_; column += kVecs * kLanes) {
        add_value_tile<rows.value>(lines, first, begin / 2, (end + 1) / 2, column);
      }
    });
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

  /// For each chunk: sums[r] = sums[r] * corrections[r] + sum over pairs of weights[r] * values,
  /// for the pairs of [begin, end).
  template <int kRows>
  __attribute__((noinline)) void add_value_tile(
      const BFloat16* const* lines, int row, int begin, int end, int64_t column) {
    const int64_t value_dim = value_dim_;
    float* all_sums = state_.sums + row * value_dim + column;
    Vec sums[kRows][kVecs];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
      for (int v = 0; v < kVecs; ++v) sums[r][v] = load(all_sums + r * value_dim + v * kLanes);
    }
    for (int chunk = 2 * begin / kChunk; chunk * kChunk < 2 * end; ++chunk) {
      if (are_corrected_[chunk][row / kGroup] ||
          are_corrected_[chunk][(row + kRows - 1) / kGroup]) {
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) {
          const Vec correction = broadcast(corrections_[chunk][row + r]);
#pragma GCC unroll 2
          for (int v = 0; v < kVecs; ++v) sums[r][v] = mul(sums[r][v], correction);
        }
      }
      const auto last = static_cast<int>(min_of(end, (chunk + 1) * kChunk / 2));
      for (int p = static_cast<int>(max_of(begin, chunk * kChunk / 2)); p < last; ++p) {
        Pairs::Packet value[kVecs];
#pragma GCC unroll 2
        for (int v = 0; v < kVecs; ++v) {
          value[v] = Pairs::load_packet(lines[p] + 2 * (column + v * kLanes));
        }
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) {
          const Pairs::Packet weight = Pairs::broadcast_pair(weights_[p] + 2 * (row + r));
#pragma GCC unroll 2
          for (int v = 0; v < kVecs; ++v) {
            sums[r][v] = Pairs::accumulate(value[v], weight, sums[r][v]);
          }
        }
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
      for (int v = 0; v < kVecs; ++v) store(all_sums + r * value_dim + v * kLanes, sums[r][v]);
    }
  }

  const AttentionRows& rows_;
  AttentionState& state_;
  ScoreRule rule_;
  int count_;   // rows
  int padded_;  // rows, with those that fill vectors
  int64_t head_dim_;
  int64_t value_dim_;
  CacheLines ahead_[2];  // of the next span
  SpanLimits limits_;
  alignas(64) float corrections_[kChunks][kMostRows];
  bool are_corrected_[kChunks][kMostRows / kGroup];
  alignas(64) BFloat16 queries_[kMostQueries];
  alignas(64) float scores_[kChunk * kGroup];               // [position][row of the group]
  alignas(64) BFloat16 weights_[kSpan / 2][2 * kMostRows];  // [pair][row][2]
  alignas(64) BFloat16 values_[kSpan * kMaxAttentionHeadDim];
  alignas(64) BFloat16 half_pairs_[2][2 * kMaxAttentionHeadDim];
};
