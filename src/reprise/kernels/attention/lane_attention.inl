// Attention with vector lanes: attend_positions() for a cache whose elements are of type E.
//
// In scores, lanes are positions. The keys of a chunk are transposed into lines: line i has element
// i of every key. Each element of a query multiplies whole lines, so a score is a sum in the order
// of the elements, without an operation across lanes, and other rows have no influence on it. In
// the weighted sums of values, lanes are elements of a value.
template <typename E>
class LaneAttention : LaneTiles, public ChunkAttention<LaneAttention<E>, E> {
  using Chunks = ChunkAttention<LaneAttention<E>, E>;
  friend Chunks;
  using Chunks::count_;
  using Chunks::rows_;

 public:
  LaneAttention(const AttentionRows& rows, AttentionState& state)
      : LaneTiles(rows, state),
        Chunks(rows),
        is_widened_(kIsCodes || (count_ > kAttentionTileRows && sizeof(E) < sizeof(float) &&
                                 !(kWidensWhileLoading && __is_same(E, BFloat16)))) {}

  /// Reads the queries, of type T.
  template <typename T>
  void pack_queries() {
    const T* queries[kMaxAttentionRows];
    for (int r = 0; r < kMaxAttentionRows; ++r)
      queries[r] = rows_.template q<T>(r < count_ ? r : 0);
    transpose_rows(queries, 0, count_, 0, rows_.a.head_dim, queries_);
  }

  void ask_for_keys(const CacheLines& lines) { keys_ahead_ = lines; }

 private:
  static constexpr bool kIsCodes = sizeof(E) == 1;

  void begin_values(const ChunkPointers<E>& pointers, const E* const* ahead, int begin, int end) {
    if constexpr (kIsCodes) {
      find_scales(pointers.keys, rows_.a.cache.k_scale);
      scale_positions(state_, 0, count_, scales_);
      find_scales(pointers.values, rows_.a.cache.v_scale);
    }
    if (is_widened_) widen_values(pointers.values, ahead, begin, end);
  }

  /// Updates rows [row, row + count), which see positions [begin, end) of the chunk.
  void update_rows(
      const E* const* values, const E* const* ahead, int row, int count, int begin, int end) {
    update_softmax(state_, row, count, begin, end, rows_.a);
    if constexpr (kIsCodes) scale_positions(state_, row, count, scales_);
    if constexpr (!kIsCodes) {
      if (!is_widened_) return add_values(values, ahead, row, count, begin, end);
    }
    add_values(widened_, widened_, row, count, begin, end);
  }

  /// lines[i * kChunk + r] = element `from` + i of row r, for the vectors that contain a row of
  /// [begin, end).
  template <typename T>
  static __attribute__((noinline)) void transpose_rows(
      const T* const* rows, int begin, int end, int64_t from, int64_t num_elements, float* lines) {
    for (int r = begin / kLanes * kLanes; r < end; r += kLanes) {
      Vec columns[kLanes];
      int64_t i = 0;
      if constexpr (__is_same(T, BFloat16)) {
        for (; i + 2 * kLanes <= num_elements; i += 2 * kLanes) {
          load_transposed(rows + r, from + i, columns);
#pragma GCC unroll 16
          for (int l = 0; l < kLanes; ++l) {
            store(lines + (i + 2 * l) * kChunk + r, first_of_pairs(columns[l]));
            store(lines + (i + 2 * l + 1) * kChunk + r, second_of_pairs(columns[l]));
          }
        }
      }
      for (; i < num_elements; i += kLanes) {
        const int count = lanes_at(i, num_elements);
        alignas(64) float numbers[kLanes][kLanes];
        const float* starts[kLanes];
        for (int l = 0; l < kLanes; ++l) {
          starts[l] = numbers[l];
          store(numbers[l], load_elements(rows[r + l] + from + i, count));
        }
        load_transposed(starts, 0, columns);
        for (int l = 0; l < count; ++l) store(lines + (i + l) * kChunk + r, columns[l]);
      }
    }
  }

  /// state_.scores = queries x keys, without their scales
  void compute_scores(const E* const* keys, int begin, int end) {
    const int64_t head_dim = rows_.a.head_dim;
    const int first = begin / kPositions * kPositions;
    const auto last = static_cast<int>(ceil_div(end, kPositions) * kPositions);
    for (int64_t i = 0; i < head_dim; i += kElementsAtOnce) {
      const int64_t num_elements = min_of(kElementsAtOnce, head_dim - i);
      transpose_rows(keys, first, last, i, num_elements, keys_);
      add_products(count_, first, last, i, num_elements);
    }
  }

  /// Finds the scales of the rows of a chunk.
  void find_scales(const E* const* rows, float scale) {
    const bool has_row_scales = rows_.a.cache.has_row_scales != 0;
    for (int p = 0; p < kChunk; ++p) {
      scales_[p] = scale;
      if (has_row_scales) __builtin_memcpy(scales_ + p, rows[p] + rows_.a.head_dim, sizeof(float));
    }
  }

  void widen_values(const E* const* values, const E* const* ahead, int begin, int end) {
    for (int p = begin; p < end; ++p) {
      float* numbers = values_ + p * value_dim_;
      widened_[p] = numbers;
      int64_t i = 0;
      for (; i + kLanes <= value_dim_; i += kLanes) {
        store(numbers + i, load(values[p] + i));
        if (i % kLineSize<E> == 0) __builtin_prefetch(ahead[p] + i, 0, kPrefetchLevel);
      }
      for (; i < value_dim_; ++i) numbers[i] = to_float(values[p][i]);
    }
  }

  // Values of eight bits, and values that several tiles of rows use, are converted to float32 only
  // once for all rows.
  bool is_widened_;
  const float* widened_[kChunk];
  alignas(64) float scales_[kChunk];                         // of codes, by position
  alignas(64) float values_[kChunk * kMaxAttentionHeadDim];  // rows value_dim apart
};
