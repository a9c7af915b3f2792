// Attention of bfloat16 through AMX tiles: attend_positions() for caches and queries of bfloat16.
//
// Scores are keys x queries: rows of keys in the cache are rows of a tile without conversion, and
// the queries are brought into the order of columns once for all positions. So each query row has
// its own lane in the scores, and the softmax of 16 rows needs no operation across lanes. Sums are
// values x weights; for this, the values of a chunk are transposed. A weight is the sum of two
// bfloat16, which keeps 16 bits of the weight.
//
// The lane of a row does not depend on the other lanes: a row has the same bits in any batch.
class TileAttention {
 public:
  /// Whether tiles can be used for these sizes. This depends on the model only.
  static bool fits(const AttentionKernelArguments& a) {
    if (a.biases != nullptr) return false;
    return a.cache.type == CacheType::like_model && a.head_dim % kTileDepth == 0 &&
           a.head_dim <= kMostHeadDim && a.value_dim % kTileHeight == 0;
  }

  TileAttention(const AttentionRows& rows, AttentionState& state)
      : rows_(rows),
        state_(state),
        count_(rows.num_tokens * rows.num_heads),
        row_tiles_(count_ > kTileHeight ? 2 : 1),
        depth_tiles_(static_cast<int>(rows.a.head_dim / kTileDepth)),
        value_tiles_(static_cast<int>(rows.a.value_dim / kTileHeight)) {}

  /// See attend_positions. The state of all rows has begun.
  void run(int64_t begin, int64_t end) {
    tiles_.configure(product_shapes(kGroupRows));
    pack_queries();
    for (int r = count_; r < row_tiles_ * kTileHeight; ++r) {
      state_.maxima[r] = -__builtin_inff();
      state_.totals[r] = 0.0F;
    }
    pack_sums();
    const auto begin_in = [&](int64_t chunk) { return static_cast<int>(max_of(0, begin - chunk)); };
    const auto end_in = [&](int64_t chunk) {
      return static_cast<int>(min_of(kChunk, end - chunk));
    };
    int64_t chunk = begin / kChunk * kChunk;
    ChunkPointers<BFloat16> pointers(rows_, chunk, begin_in(chunk), end_in(chunk));
    for (; chunk < end; chunk += kChunk) {
      ChunkPointers<BFloat16> next;
      if (chunk + kChunk < end) {
        next = ChunkPointers<BFloat16>(rows_, chunk + kChunk, 0, end_in(chunk + kChunk));
        prefetch(next, end_in(chunk + kChunk));
      }
      attend_chunk(pointers, chunk, begin_in(chunk), end_in(chunk));
      pointers = next;
    }
    unpack_sums();
  }

 private:
  static constexpr int kMostHeadDim = 640;
  static constexpr int64_t kTileBytes = int64_t{kTileHeight} * kTileRowBytes;
  static constexpr int kRowTiles = kMaxAttentionRows / kTileHeight;
  static_assert(kRowTiles == 2 && kChunk == 32, "as many as there are tiles for");
  static_assert(kTileHeight % kLanes == 0, "lanes are rows");

  /// Cache blocks are scattered in memory, and each is too short for the hardware prefetcher.
  void prefetch(const ChunkPointers<BFloat16>& pointers, int count) const {
    CacheLines lines[] = {pointers.key_lines(count, rows_.a), pointers.value_lines(count, rows_.a)};
    for (CacheLines& some : lines) {
      while (some.row != some.last_row) some.prefetch_next<3>();  // the first-level cache
    }
  }

  void pack_queries() {
    static constexpr BFloat16 kZeros[kTileDepth] = {};
    for (int t = 0; t < row_tiles_; ++t) {
      for (int k = 0; k < depth_tiles_; ++k) {
        const void* words[kTileHeight];
        for (int i = 0; i < kTileHeight; ++i) {
          const int row = t * kTileHeight + i;
          words[i] = row < count_ ? rows_.q<BFloat16>(row) + k * kTileDepth : kZeros;
        }
        TileLayouts::transpose_words(words, queries_[t * depth_tiles_ + k]);
      }
    }
  }

  void attend_chunk(const ChunkPointers<BFloat16>& pointers, int64_t chunk, int begin, int end) {
    compute_scores(pointers, begin, end);
    const bool is_even = find_bounds(chunk, begin, end);
    for (int t = 0; t < row_tiles_; ++t) update_softmax(t, begin, end, is_even);
    if (is_even || values_are_finite(pointers, begin, end)) {
      transpose_values(pointers, begin, end);
      add_values();
    } else {
      add_values_of_each_row(pointers);
    }
  }

  void compute_scores(const ChunkPointers<BFloat16>& pointers, int begin, int end) {
    const int64_t head_dim = rows_.a.head_dim;
    // 16 rows of a cache block. Rows outside of [begin, end) may be any rows of the cache.
    const auto keys_from = [&](int first) {
      const int inside = static_cast<int>(max_of(first, begin));
      const bool has_rows = inside < min_of(first + kTileHeight, end);
      return has_rows ? pointers.keys[inside] - (inside - first) * head_dim : nullptr;
    };
    const BFloat16* first = keys_from(0);
    const BFloat16* second = keys_from(kTileHeight);
    if (rows_.a.block_size % kTileHeight != 0) {
      compute_scores_of_copies(pointers);
    } else {
      multiply_keys(first != nullptr ? first : second, second != nullptr ? second : first);
    }
  }

  /// For blocks whose rows do not fill tiles. It is a separate function because of its large stack
  /// frame.
  __attribute__((noinline)) void compute_scores_of_copies(const ChunkPointers<BFloat16>& pointers) {
    const int64_t head_dim = rows_.a.head_dim;
    alignas(64) BFloat16 keys[kChunk * kMostHeadDim];
    for (int i = 0; i < kChunk; ++i) {
      __builtin_memcpy(
          keys + i * head_dim, pointers.keys[i], static_cast<size_t>(head_dim) * sizeof(BFloat16));
    }
    multiply_keys(keys, keys + kTileHeight * head_dim);
  }

  /// Computes scores_[row tile][position][row] from two groups of 16 rows of keys; rows are
  /// head_dim apart.
  void multiply_keys(const BFloat16* first, const BFloat16* second) {
    const int64_t stride = rows_.a.head_dim * static_cast<int64_t>(sizeof(BFloat16));
    tiles_.clear<kSums00>();
    tiles_.clear<kSums01>();
    tiles_.clear<kSums10>();
    tiles_.clear<kSums11>();
    for (int k = 0; k < depth_tiles_; ++k) {
      tiles_.load<kRows0>(first + k * kTileDepth, stride);
      tiles_.load<kColumns0>(queries_[k], kTileRowBytes);
      tiles_.add_bf16<kSums00, kRows0, kColumns0>();
      tiles_.load<kRows1>(second + k * kTileDepth, stride);
      tiles_.add_bf16<kSums10, kRows1, kColumns0>();
      if (row_tiles_ == 1) continue;
      tiles_.load<kColumns1>(queries_[depth_tiles_ + k], kTileRowBytes);
      tiles_.add_bf16<kSums01, kRows0, kColumns1>();
      tiles_.add_bf16<kSums11, kRows1, kColumns1>();
    }
    tiles_.store<kSums00>(scores_[0][0], kTileRowBytes);
    tiles_.store<kSums10>(scores_[0][kTileHeight], kTileRowBytes);
    if (row_tiles_ == 1) return;
    tiles_.store<kSums01>(scores_[1][0], kTileRowBytes);
    tiles_.store<kSums11>(scores_[1][kTileHeight], kTileRowBytes);
  }

  /// The positions that each row sees. Returns whether all rows see all of [begin, end).
  bool find_bounds(int64_t chunk, int begin, int end) {
    bool is_even = true;
    for (int token = 0; token < rows_.num_tokens; ++token) {
      const int64_t first = max_of(begin, rows_.window_begin(token) - chunk);
      const int64_t last = max_of(0, min_of(end, rows_.context(token) - chunk));
      is_even = is_even && first == begin && last == end;
      for (int head = 0; head < rows_.num_heads; ++head) {
        first_seen_[token * rows_.num_heads + head] = static_cast<int>(first);
        last_seen_[token * rows_.num_heads + head] = static_cast<int>(last);
      }
    }
    return is_even;
  }

  /// Updates the softmax of 16 rows; the results are in weights_.
  void update_softmax(int row_tile, int begin, int end, bool is_even) {
    const AttentionKernelArguments& a = rows_.a;
    const int first_row = row_tile * kTileHeight;
    const float infinity = __builtin_inff();
    float least = infinity;
    for (int v = 0; v < kTileHeight; v += kLanes) {
      const int row = first_row + v;
      const Vec before = load(state_.maxima + row);
      Vec largest = before;
      for (int p = begin; p < end; ++p) {
        Vec score = mul(load(scores_[row_tile][p] + v), broadcast(a.scale));
        if (a.soft_cap > 0) score = soft_capped(score, a.soft_cap);
        if (!is_even) {
          alignas(64) float bounds[kLanes];
          for (int i = 0; i < kLanes; ++i) {
            const bool is_seen = p >= first_seen_[row + i] && p < last_seen_[row + i];
            bounds[i] = is_seen ? infinity : -infinity;
          }
          // If the score is a NaN that the row does not see, min() returns the second operand.
          score = min(score, load(bounds));
        }
        store(scores_[row_tile][p] + v, score);
        largest = max(largest, score);
      }
      // For a row that has not seen any position, the largest score is -inf, and the weights are 0.
      const Vec finite = max(broadcast(-3.0e38F), largest);
      const Vec correction = exp(sub(before, finite));
      Vec totals[4] = {zero(), zero(), zero(), zero()};
      for (int p = 0; p < kChunk; p += 2) {
        Vec weights[2];
        for (int i : {0, 1}) {
          const bool is_inside = p + i >= begin && p + i < end;
          weights[i] = is_inside ? exp(sub(load(scores_[row_tile][p + i] + v), finite)) : zero();
          totals[p % 4 + i] = add(totals[p % 4 + i], weights[i]);
        }
        const int64_t at = int64_t{p} * kTileHeight + 2 * v;
        TileLayouts::store_pairs(
            weights[0], weights[1], weights_[0][row_tile] + at, weights_[1][row_tile] + at);
      }
      const Vec total = add(add(totals[0], totals[1]), add(totals[2], totals[3]));
      store(state_.totals + row, fma(load(state_.totals + row), correction, total));
      store(state_.maxima + row, largest);
      store(state_.corrections + row, correction);
      least = min_of_lanes(least, correction);
    }
    if (!(least == 1.0F)) correct_sums(row_tile);
  }

  static float min_of_lanes(float least, Vec v) {
    const float negative = maximum(sub(zero(), v));
    return -negative < least ? -negative : least;
  }

  /// The multiplication is skipped if all factors are 1, which does not change the result.
  void correct_sums(int row_tile) {
    for (int t = 0; t < value_tiles_; ++t) {
      float* sums = sums_of(t, row_tile);
      for (int i = 0; i < kTileHeight; ++i) {
        for (int v = 0; v < kTileHeight; v += kLanes) {
          float* at = sums + i * kTileHeight + v;
          store(at, mul(load(at), load(state_.corrections + row_tile * kTileHeight + v)));
        }
      }
    }
  }

  bool values_are_finite(const ChunkPointers<BFloat16>& pointers, int begin, int end) const {
    Vec differences = zero();
    for (int p = begin; p < end; ++p) {
      for (int64_t i = 0; i < rows_.a.value_dim; i += kLanes) {
        const Vec value = load(pointers.values[p] + i);
        differences = add(differences, sub(value, value));  // NaN if a value is not finite
      }
    }
    return sum(differences) == 0.0F;
  }

  /// values_[tile][element][position], with zeros outside of [begin, end).
  void transpose_values(const ChunkPointers<BFloat16>& pointers, int begin, int end) {
    static constexpr BFloat16 kZeros[kTileHeight] = {};
    for (int t = 0; t < value_tiles_; ++t) {
      const BFloat16* from[kChunk];
      for (int p = 0; p < kChunk; ++p) {
        from[p] = p >= begin && p < end ? pointers.values[p] + t * kTileHeight : kZeros;
      }
      TileLayouts::transpose_columns(from, values_[t]);
    }
  }

  /// sums_ += values x weights
  void add_values() {
    for (int t = 0; t < value_tiles_; t += 2) {
      const bool has_second = t + 1 < value_tiles_;
      if (row_tiles_ == 2) {
        add_value_tiles<true>(t, has_second);
      } else {
        add_value_tiles<false>(t, has_second);
      }
    }
  }

  template <bool kTwoRowTiles>
  REPRISE_INLINE void add_value_tiles(int t, bool has_second) {
    tiles_.load<kSums00>(sums_of(t, 0), kTileRowBytes);
    if constexpr (kTwoRowTiles) tiles_.load<kSums01>(sums_of(t, 1), kTileRowBytes);
    tiles_.load<kRows0>(values_[t], kTileRowBytes);
    if (has_second) {
      tiles_.load<kSums10>(sums_of(t + 1, 0), kTileRowBytes);
      if constexpr (kTwoRowTiles) tiles_.load<kSums11>(sums_of(t + 1, 1), kTileRowBytes);
      tiles_.load<kRows1>(values_[t + 1], kTileRowBytes);
    }
    for (int half : {0, 1}) {
      tiles_.load<kColumns0>(weights_[half][0], kTileRowBytes);
      tiles_.add_bf16<kSums00, kRows0, kColumns0>();
      if (has_second) tiles_.add_bf16<kSums10, kRows1, kColumns0>();
      if constexpr (kTwoRowTiles) {
        tiles_.load<kColumns1>(weights_[half][1], kTileRowBytes);
        tiles_.add_bf16<kSums01, kRows0, kColumns1>();
        if (has_second) tiles_.add_bf16<kSums11, kRows1, kColumns1>();
      }
    }
    tiles_.store<kSums00>(sums_of(t, 0), kTileRowBytes);
    if constexpr (kTwoRowTiles) tiles_.store<kSums01>(sums_of(t, 1), kTileRowBytes);
    if (has_second) {
      tiles_.store<kSums10>(sums_of(t + 1, 0), kTileRowBytes);
      if constexpr (kTwoRowTiles) tiles_.store<kSums11>(sums_of(t + 1, 1), kTileRowBytes);
    }
  }

  /// A value that is not finite times a weight of 0 is NaN, so a row must not be multiplied with
  /// values that it does not see. This case is rare and slow: each row is computed alone, and the
  /// sums of the other rows are restored.
  __attribute__((noinline)) void add_values_of_each_row(const ChunkPointers<BFloat16>& pointers) {
    alignas(64) float others[kMaxAttentionHeadDim * kMaxAttentionRows];
    const int64_t size = int64_t{value_tiles_} * row_tiles_ * kTileHeight * kTileHeight;
    for (int row = 0; row < count_; ++row) {
      __builtin_memcpy(others, sums_, static_cast<size_t>(size) * sizeof(float));
      transpose_values(pointers, first_seen_[row], last_seen_[row]);
      add_values();
      for (int64_t i = 0; i < size; ++i) {
        const auto row_of = static_cast<int>(
            i / (kTileHeight * kTileHeight) % row_tiles_ * kTileHeight + i % kTileHeight);
        if (row_of != row) sums_[i] = others[i];
      }
    }
  }

  /// Copies the state's sums into the order of tiles.
  void pack_sums() {
    static constexpr float kZeros[kTileHeight] = {};
    for (int t = 0; t < value_tiles_; ++t) {
      for (int row_tile = 0; row_tile < row_tiles_; ++row_tile) {
        const void* rows[kTileHeight];
        for (int i = 0; i < kTileHeight; ++i) {
          const int row = row_tile * kTileHeight + i;
          rows[i] = row < count_ ? state_.sums + row * rows_.a.value_dim + t * kTileHeight : kZeros;
        }
        TileLayouts::transpose_words(rows, sums_of(t, row_tile));
      }
    }
  }

  /// Copies the sums back into the order of the state.
  void unpack_sums() {
    for (int t = 0; t < value_tiles_; ++t) {
      for (int row_tile = 0; row_tile < row_tiles_; ++row_tile) {
        const void* lines[kTileHeight];
        for (int i = 0; i < kTileHeight; ++i) {
          lines[i] = sums_of(t, row_tile) + i * kTileHeight;
        }
        alignas(64) float rows[kTileHeight][kTileHeight];
        TileLayouts::transpose_words(lines, rows);
        for (int i = 0; i < kTileHeight && row_tile * kTileHeight + i < count_; ++i) {
          __builtin_memcpy(
              state_.sums + (row_tile * kTileHeight + i) * rows_.a.value_dim + t * kTileHeight,
              rows[i],
              sizeof rows[i]);
        }
      }
    }
  }

  float* sums_of(int value_tile, int row_tile) {
    return sums_ + (value_tile * row_tiles_ + row_tile) * kTileHeight * kTileHeight;
  }

  const AttentionRows& rows_;
  AttentionState& state_;
  int count_;  // rows
  int row_tiles_;
  int depth_tiles_;
  int value_tiles_;
  Tiles tiles_;
  int first_seen_[kMaxAttentionRows] = {};  // by row, in the chunk
  int last_seen_[kMaxAttentionRows] = {};
  alignas(64) BFloat16 queries_[kRowTiles * kMostHeadDim / kTileDepth][kTileBytes / 2];
  alignas(64) float scores_[kRowTiles][kChunk][kTileHeight];
  alignas(64) BFloat16 weights_[2][kRowTiles][kTileBytes / 2];  // upper parts, lower parts
  alignas(64) BFloat16 values_[kMaxAttentionHeadDim / kTileHeight][kTileBytes / 2];
  alignas(64) float sums_[kMaxAttentionHeadDim * kMaxAttentionRows];  // [tile][row tile][16][16]
};
