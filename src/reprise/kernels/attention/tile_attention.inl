// Attention of bfloat16 through AMX tiles: attend_positions() for caches and queries of bfloat16.
//
// Scores are keys x queries: rows of keys in the cache are rows of a tile without conversion, and
// the queries are brought into the order of columns once for all positions. So each query row has
// its own lane in the scores, and the softmax needs no operation across lanes. Sums are values x
// weights; for this, the values of a chunk are transposed, once for up to 256 rows. Weights are
// rounded to bfloat16 (weights.inl).
//
// Groups of 32 rows are computed one after the other over a span of several chunks. The sums of a
// group are loaded into tiles and stored once for a span, unless a maximum grows within the span.
//
// The lane of a row does not depend on the other lanes: a row has the same bits in any batch.
class TileAttention {
 public:
  /// Whether tiles can be used for these sizes. This depends on the model only.
  static bool fits(const AttentionKernelArguments& a) {
    if (a.biases != nullptr) return false;
    return a.cache.type == CacheType::like_model && a.head_dim % kTileDepth == 0 &&
           a.head_dim <= kMaxAttentionKeyDim && a.value_dim % kTileHeight == 0;
  }

  TileAttention(const AttentionRows& rows, AttentionState& state)
      : rows_(rows),
        state_(state),
        rule_(rows.a),
        count_(rows.num_tokens * rows.num_heads),
        padded_(static_cast<int>(ceil_div(count_, kTileHeight) * kTileHeight)),
        depth_tiles_(static_cast<int>(rows.a.head_dim / kTileDepth)),
        value_tiles_(static_cast<int>(rows.a.value_dim / kTileHeight)),
        sums_(count_, padded_, rows.a.value_dim) {}

  /// See attend_positions. The state of all rows has begun.
  void run(int64_t begin, int64_t end) {
    tiles_.configure(product_shapes(kGroupRows));
    pack_queries();
    use_powers_of_two(state_.maxima, count_);
    for (int r = count_; r < padded_; ++r) {
      state_.maxima[r] = -__builtin_inff();
      state_.totals[r] = 0.0F;
    }
    sums_.pack(state_.sums);
    const auto begin_in = [&](int64_t span) { return static_cast<int>(max_of(0, begin - span)); };
    const auto end_in = [&](int64_t span) { return static_cast<int>(min_of(kSpan, end - span)); };
    int64_t span = begin / kSpan * kSpan;
    Pointers pointers(rows_, span, begin_in(span), end_in(span));
    for (; span < end; span += kSpan) {
      Pointers next;
      next_ = nullptr;
      if (span + kSpan < end) {
        next = Pointers(rows_, span + kSpan, 0, end_in(span + kSpan));
        next_ = &next;
      }
      attend_span(pointers, span, begin_in(span), end_in(span));
      pointers = next;
    }
    sums_.unpack(state_.sums);
    use_powers_of_e(state_.maxima, count_);
  }

 private:
  static constexpr int kChunks = 4;
  static constexpr int kSpan = kChunks * kChunk;
  using Pointers = ChunkPointers<BFloat16, kSpan>;
  static_assert(kGroupRows == 32 && kChunk == 32, "as many as there are tiles for");
  static_assert(kTileHeight % kLanes == 0, "lanes are rows");

  void pack_queries() {
    static constexpr BFloat16 kZeros[kTileDepth] = {};
    for (int t = 0; t < padded_ / kTileHeight; ++t) {
      for (int k = 0; k < depth_tiles_; ++k) {
        const void* words[kTileHeight];
        for (int i = 0; i < kTileHeight; ++i) {
          const int row = t * kTileHeight + i;
          words[i] = row < count_ ? rows_.q<BFloat16>(row) + k * kTileDepth : kZeros;
        }
        TileLayouts::transpose_words(words, queries_ + (t * depth_tiles_ + k) * kTileBytes / 2);
      }
    }
  }

  void attend_span(const Pointers& pointers, int64_t span, int begin, int end) {
    limits_.find(rows_, span, begin, end, padded_);
    for (TileChunk& chunk : chunks_) chunk.state = TileChunk::Values::unknown;
    for (int row = 0; row < padded_; row += static_cast<int>(kGroupRows)) {
      const int last_row = static_cast<int>(min_of(row + kGroupRows, padded_)) - 1;
      // Both limits grow from row to row.
      const TileGroup group = {row,
                               last_row - row >= kTileHeight ? 2 : 1,
                               static_cast<int>(limits_.first[row]),
                               static_cast<int>(limits_.last[last_row])};
      if (group.first >= group.last) continue;
      for (int chunk = group.first_chunk(); chunk < group.last_chunk(); ++chunk) {
        compute_weights(pointers, group, chunk, begin, end);
      }
      add_values(pointers, group, begin, end);
    }
  }

  /// Whether all rows of a group see all valid positions of a chunk.
  bool sees_all_of(const TileGroup& group, int chunk, int begin, int end) const {
    const int last_row = group.row + group.tiles * kTileHeight - 1;
    return limits_.first[last_row] <= max_of(begin, chunk * kChunk) &&
           limits_.last[group.row] >= min_of(end, (chunk + 1) * kChunk);
  }

  /// Computes the weights of a group of rows for one chunk, and its values if no group has done it.
  void compute_weights(
      const Pointers& pointers, const TileGroup& group, int chunk, int begin, int end) {
    using Values = TileChunk::Values;
    TileChunk& c = chunks_[chunk];
    const auto first = static_cast<int>(max_of(begin, chunk * kChunk));
    const auto last = static_cast<int>(min_of(end, (chunk + 1) * kChunk));
    const bool is_even = sees_all_of(group, chunk, begin, end);
    if (c.state == Values::unknown) find_lines_after(pointers, chunk, end);
    compute_scores(pointers, group, chunk, first, last);
    if (c.state == Values::unknown) {
      transpose_values(pointers, chunk, first, last);
      c.state = Values::transposed;
    }
    if (!is_even && c.state == Values::transposed) {
      const bool are_finite =
          TileChunk::are_finite(pointers.values, first, last, rows_.a.value_dim);
      c.state = are_finite ? Values::finite : Values::not_finite;
    }
    c.is_alone = !is_even && c.state == Values::not_finite;
    c.are_corrected = false;
    for (int row = 0; row < group.tiles * kTileHeight; row += kLanes) {
      c.are_corrected |= update_rows(group, chunk, row);
    }
  }

  void find_lines_after(const Pointers& pointers, int chunk, int end) {
    const int first = (chunk + 1) * kChunk;
    const int steps = depth_tiles_ + value_tiles_;
    lines_ = {};
    if (first < end) {
      lines_.find(pointers, first, static_cast<int>(min_of(kChunk, end - first)), rows_.a, steps);
    } else if (next_ != nullptr) {
      lines_.find(*next_, 0, kChunk, rows_.a, steps);
    }
  }

  void compute_scores(
      const Pointers& pointers, const TileGroup& group, int chunk, int begin, int end) {
    const int64_t head_dim = rows_.a.head_dim;
    // 16 rows of a cache block. Rows outside of [begin, end) may be any rows of the cache.
    const auto keys_from = [&](int first) {
      const int inside = static_cast<int>(max_of(first, begin));
      const bool has_rows = inside < min_of(first + kTileHeight, end);
      return has_rows ? pointers.keys[inside] - (inside - first) * head_dim : nullptr;
    };
    const BFloat16* first = keys_from(chunk * kChunk);
    const BFloat16* second = keys_from(chunk * kChunk + kTileHeight);
    if (rows_.a.block_size % kTileHeight != 0) {
      compute_scores_of_copies(pointers.keys + chunk * kChunk, group);
    } else {
      multiply_keys(first != nullptr ? first : second, second != nullptr ? second : first, group);
    }
  }

  /// For blocks whose rows do not fill tiles. It is a separate function because of its large stack
  /// frame.
  __attribute__((noinline)) void compute_scores_of_copies(const BFloat16* const* from,
                                                          const TileGroup& group) {
    const int64_t head_dim = rows_.a.head_dim;
    alignas(64) BFloat16 keys[kChunk * kMaxAttentionKeyDim];
    for (int i = 0; i < kChunk; ++i) {
      __builtin_memcpy(
          keys + i * head_dim, from[i], static_cast<size_t>(head_dim) * sizeof(BFloat16));
    }
    multiply_keys(keys, keys + kTileHeight * head_dim, group);
  }

  /// Computes scores_[row tile][position][row] from two groups of 16 rows of keys; rows are
  /// head_dim apart.
  void multiply_keys(const BFloat16* first, const BFloat16* second, const TileGroup& group) {
    const int64_t stride = rows_.a.head_dim * static_cast<int64_t>(sizeof(BFloat16));
    const BFloat16* queries = queries_ + group.row * rows_.a.head_dim;
    tiles_.clear<kSums00>();
    tiles_.clear<kSums01>();
    tiles_.clear<kSums10>();
    tiles_.clear<kSums11>();
    for (int k = 0; k < depth_tiles_; ++k) {
      tiles_.load<kRows0>(first + k * kTileDepth, stride);
      tiles_.load<kColumns0>(queries + k * kTileBytes / 2, kTileRowBytes);
      tiles_.add_bf16<kSums00, kRows0, kColumns0>();
      tiles_.load<kRows1>(second + k * kTileDepth, stride);
      tiles_.add_bf16<kSums10, kRows1, kColumns0>();
      lines_.ask();
      if (group.tiles == 1) continue;
      tiles_.load<kColumns1>(queries + (depth_tiles_ + k) * kTileBytes / 2, kTileRowBytes);
      tiles_.add_bf16<kSums01, kRows0, kColumns1>();
      tiles_.add_bf16<kSums11, kRows1, kColumns1>();
    }
    tiles_.store<kSums00>(scores_[0][0], kTileRowBytes);
    tiles_.store<kSums10>(scores_[0][kTileHeight], kTileRowBytes);
    if (group.tiles == 1) return;
    tiles_.store<kSums01>(scores_[1][0], kTileRowBytes);
    tiles_.store<kSums11>(scores_[1][kTileHeight], kTileRowBytes);
  }

  /// Updates the softmax of a vector of rows, from row `row` of the group on. Returns whether a
  /// correction is not 1.
  bool update_rows(const TileGroup& group, int chunk, int row) {
    const int of_state = group.row + row;
    const ChunkLimits limits(limits_, of_state, chunk);
    TileChunk& c = chunks_[chunk];
    const int tile = row / kTileHeight;
    const LaneScores scores = {.scores = scores_[tile][0] + row % kTileHeight,
                               .score_stride = kTileHeight,
                               .weights = c.weights[tile] + 2 * (row % kTileHeight),
                               .weight_stride = 2 * kTileHeight,
                               .begin = 0,
                               .end = kChunk,
                               .are_all_seen = limits.contain(0, kChunk),
                               .first_seen = limits.first,
                               .last_seen = limits.last};
    const Vec corrections =
        update_lane_softmax(scores, rule_, state_.maxima + of_state, state_.totals + of_state);
    store(c.corrections + row, corrections);
    return maximum(sub(zero(), corrections)) > -1.0F;
  }

  /// The values of a chunk, with zeros outside of positions [begin, end) of the span.
  void transpose_values(const Pointers& pointers, int chunk, int begin, int end) {
    const int start = chunk * kChunk;
    chunks_[chunk].transpose(
        pointers.values + start, begin - start, end - start, rows_.a.value_dim, [&] {
          lines_.ask();
        });
  }

  /// sums_ += values x weights, for a group of rows and its chunks
  void add_values(const Pointers& pointers, const TileGroup& group, int begin, int end) {
    int chunk = group.first_chunk();
    while (chunk < group.last_chunk()) {
      const TileChunk& c = chunks_[chunk];
      if (c.are_corrected) sums_.correct(group, c.corrections);
      if (c.is_alone) {
        add_values_of_each_row(pointers, group, chunk, begin, end);
        ++chunk;
        continue;
      }
      int next = chunk + 1;
      while (next < group.last_chunk() && !chunks_[next].are_corrected && !chunks_[next].is_alone) {
        ++next;
      }
      add_chunks(group, chunk, next);
      chunk = next;
    }
  }

  void add_chunks(const TileGroup& group, int first_chunk, int last_chunk) {
    for (int t = 0; t < value_tiles_; t += 2) {
      const bool has_second = t + 1 < value_tiles_;
      if (group.tiles == 2) {
        add_value_tiles<true>(group, t, has_second, first_chunk, last_chunk);
      } else {
        add_value_tiles<false>(group, t, has_second, first_chunk, last_chunk);
      }
    }
  }

  template <bool kTwoRowTiles>
  REPRISE_INLINE void add_value_tiles(
      const TileGroup& group, int t, bool has_second, int first_chunk, int last_chunk) {
    tiles_.load<kSums00>(sums_.tile(group, t, 0), kTileRowBytes);
    if constexpr (kTwoRowTiles) tiles_.load<kSums01>(sums_.tile(group, t, 1), kTileRowBytes);
    if (has_second) {
      tiles_.load<kSums10>(sums_.tile(group, t + 1, 0), kTileRowBytes);
      if constexpr (kTwoRowTiles) tiles_.load<kSums11>(sums_.tile(group, t + 1, 1), kTileRowBytes);
    }
    for (int chunk = first_chunk; chunk < last_chunk; ++chunk) {
      tiles_.load<kRows0>(chunks_[chunk].values[t], kTileRowBytes);
      tiles_.load<kColumns0>(chunks_[chunk].weights[0], kTileRowBytes);
      tiles_.add_bf16<kSums00, kRows0, kColumns0>();
      if constexpr (kTwoRowTiles) {
        tiles_.load<kColumns1>(chunks_[chunk].weights[1], kTileRowBytes);
        tiles_.add_bf16<kSums01, kRows0, kColumns1>();
      }
      if (!has_second) continue;
      tiles_.load<kRows1>(chunks_[chunk].values[t + 1], kTileRowBytes);
      tiles_.add_bf16<kSums10, kRows1, kColumns0>();
      if constexpr (kTwoRowTiles) tiles_.add_bf16<kSums11, kRows1, kColumns1>();
    }
    tiles_.store<kSums00>(sums_.tile(group, t, 0), kTileRowBytes);
    if constexpr (kTwoRowTiles) tiles_.store<kSums01>(sums_.tile(group, t, 1), kTileRowBytes);
    if (has_second) {
      tiles_.store<kSums10>(sums_.tile(group, t + 1, 0), kTileRowBytes);
      if constexpr (kTwoRowTiles) tiles_.store<kSums11>(sums_.tile(group, t + 1, 1), kTileRowBytes);
    }
  }

  /// A value that is not finite times a weight of 0 is NaN, so a row must not be multiplied with
  /// values that it does not see. This case is rare and slow: each row is computed alone, and the
  /// sums of the other rows are restored.
  __attribute__((noinline)) void add_values_of_each_row(
      const Pointers& pointers, const TileGroup& group, int chunk, int begin, int end) {
    alignas(64) float others[kMaxAttentionHeadDim * kGroupRows];
    const auto bytes = static_cast<size_t>(sums_.size(group)) * sizeof(float);
    for (int row = 0; row < group.tiles * kTileHeight && group.row + row < count_; ++row) {
      const auto first = static_cast<int>(limits_.first[group.row + row]);
      const auto last = static_cast<int>(limits_.last[group.row + row]);
      __builtin_memcpy(others, sums_.tile(group, 0, 0), bytes);
      transpose_values(pointers, chunk, first, last);
      add_chunks(group, chunk, chunk + 1);
      sums_.restore(group, row, others);
    }
    transpose_values(pointers, chunk, begin, end);  // for the next group
  }

  const AttentionRows& rows_;
  AttentionState& state_;
  ScoreRule rule_;
  int count_;   // rows
  int padded_;  // rows, with those that fill tiles
  int depth_tiles_;
  int value_tiles_;
  Tiles tiles_;
  const Pointers* next_ = nullptr;  // of the next span; nullptr: there is none
  NextLines lines_ = {};
  SpanLimits limits_;
  TileChunk chunks_[kChunks];
  alignas(64) float scores_[2][kChunk][kTileHeight];  // of a group and a chunk, by row tile
  alignas(64) BFloat16 queries_[kMostQueries];        // [row tile][depth tile]
  TileSums sums_;
};
