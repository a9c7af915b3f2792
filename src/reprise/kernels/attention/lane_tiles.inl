/// Register tiles of attention with vector lanes. Their scores use float32 only, and their values
/// have type V, so tiles are compiled once for all types of caches.
class LaneTiles {
 public:
  LaneTiles(const AttentionRows& rows, AttentionState& state)
      : state_(state), value_dim_(rows.a.value_dim) {}

  /// Splits rows [row, row + count) into tiles of nearly the same height.
  template <typename F>
  static REPRISE_INLINE void for_row_tiles(int row, int count, const F& f) {
    const int tiles = static_cast<int>(ceil_div(count, kAttentionTileRows));
    for (int t = 0; t < tiles; ++t) {
      const int first = count * t / tiles;
      const int height = count * (t + 1) / tiles - first;
      for_numbers<1, kAttentionTileRows + 1>([&](auto rows) REPRISE_LAMBDA_INLINE {
        if (height == rows.value) f(row + first, rows);
      });
    }
  }

 protected:
  static constexpr int kVecs = kAttentionTileVecs;
  static constexpr int kPositions = kVecs * kLanes;  // of a tile of scores
  static_assert(kChunk % kPositions == 0);
  static_assert(kMaxAttentionRows == kChunk, "queries are brought into lines like keys");
  // The number of elements of all keys that stay together in the first-level cache.
  static constexpr int64_t kElementsAtOnce = 128;

  /// Adds the products of some elements, from `element` on, to the scores of rows [0, count) with
  /// positions [begin, end). keys_ holds these elements.
  void add_products(int count, int begin, int end, int64_t element, int64_t num_elements) {
    for_row_tiles(0, count, [&](int row, auto rows) REPRISE_LAMBDA_INLINE {
      for (int p = begin; p < end; p += kPositions) {
        add_product_tile<rows.value>(row, p, element, num_elements);
      }
    });
  }

  /// Adds the weighted values of positions [begin, end) to the sums of rows. The tiles prefetch the
  /// lines of `ahead`, which will be read soon.
  template <typename V>
  void add_values(
      const V* const* values, const V* const* ahead, int first_row, int count, int begin, int end) {
    for_row_tiles(first_row, count, [&](int row, auto rows) REPRISE_LAMBDA_INLINE {
      int64_t column = 0;
      for (; column + kVecs * kLanes <= value_dim_; column += kVecs * kLanes) {
        add_value_tile<rows.value, kVecs>(values, ahead, row, begin, end, column);
      }
      for (; column + kLanes <= value_dim_; column += kLanes) {
        add_value_tile<rows.value, 1>(values, ahead, row, begin, end, column);
      }
      if (column == value_dim_) return;
      for (int r = row; r < row + rows.value; ++r) add_last_columns(values, r, begin, end, column);
    });
  }

  /// Loads the first `count` elements; the other lanes are zeros. Memory after these elements is
  /// not read.
  template <typename T>
  static REPRISE_INLINE Vec load_elements(const T* p, int count) {
    if (count == kLanes) return load(p);
    T elements[kLanes] = {};
    __builtin_memcpy(elements, p, static_cast<size_t>(count) * sizeof(T));
    return load(elements);
  }

 private:
  template <int kRows>
  __attribute__((noinline)) void add_product_tile(int row,
                                                  int position,
                                                  int64_t element,
                                                  int64_t num_elements) {
    float* scores = state_.scores[row] + position;
    const float* queries = queries_ + element * kMaxAttentionRows + row;
    const float* keys = keys_ + position;
    CacheLines ahead = keys_ahead_;
    Vec sums[kRows][kVecs];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
      for (int v = 0; v < kVecs; ++v) {
        sums[r][v] = element == 0 ? zero() : load(scores + r * kChunk + v * kLanes);
      }
    }
    for (int64_t i = 0; i < num_elements; ++i) {
      Vec key[kVecs];
#pragma GCC unroll 8
      for (int v = 0; v < kVecs; ++v) key[v] = load(keys + i * kChunk + v * kLanes);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const Vec query = broadcast(queries[i * kMaxAttentionRows + r]);
#pragma GCC unroll 8
        for (int v = 0; v < kVecs; ++v) sums[r][v] = fma(query, key[v], sums[r][v]);
      }
      ahead.prefetch_next();
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
      for (int v = 0; v < kVecs; ++v) store(scores + r * kChunk + v * kLanes, sums[r][v]);
    }
    keys_ahead_ = ahead;
  }

  /// sums[r] = sums[r] * corrections[r] + sum over positions of weights[r][p] * values[p].
  template <int kRows, int kTileVecs, typename V>
  __attribute__((noinline)) void add_value_tile(
      const V* const* values, const V* const* ahead, int row, int begin, int end, int64_t column) {
    const int64_t value_dim = value_dim_;
    // The first tile of a line asks for the line.
    const bool asks = !kWidensWhileLoading || (row == 0 && column % kLineSize<V> == 0);
    float* all_sums = state_.sums + row * value_dim + column;
    const float* weights = state_.scores[row];
    Vec sums[kRows][kTileVecs];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const Vec correction = broadcast(state_.corrections[row + r]);
#pragma GCC unroll 8
      for (int v = 0; v < kTileVecs; ++v) {
        sums[r][v] = mul(load(all_sums + r * value_dim + v * kLanes), correction);
      }
    }
    for (int p = begin; p < end; ++p) {
      Vec value[kTileVecs];
#pragma GCC unroll 8
      for (int v = 0; v < kTileVecs; ++v) value[v] = load(values[p] + column + v * kLanes);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const Vec weight = broadcast(weights[r * kChunk + p]);
#pragma GCC unroll 8
        for (int v = 0; v < kTileVecs; ++v) sums[r][v] = fma(weight, value[v], sums[r][v]);
      }
      if (asks) {
#pragma GCC unroll 4
        for (int64_t i = 0; i < kTileVecs * kLanes; i += kLineSize<V>) {
          __builtin_prefetch(ahead[p] + column + i, 0, kPrefetchLevel);
        }
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
      for (int v = 0; v < kTileVecs; ++v) {
        store(all_sums + r * value_dim + v * kLanes, sums[r][v]);
      }
    }
  }

  /// The last columns of a value_dim that is not a multiple of the number of lanes.
  template <typename V>
  void add_last_columns(const V* const* values, int row, int begin, int end, int64_t column) {
    const auto rest = static_cast<int>(value_dim_ - column);
    float* sums = state_.sums + row * value_dim_ + column;
    Vec sum = mul(load_first(sums, rest), broadcast(state_.corrections[row]));
    for (int p = begin; p < end; ++p) {
      sum = fma(broadcast(state_.scores[row][p]), load_elements(values[p] + column, rest), sum);
    }
    store_first(sums, sum, rest);
  }

 protected:
  AttentionState& state_;
  int64_t value_dim_;
  CacheLines keys_ahead_;                                               // of the next chunk
  alignas(64) float queries_[kMaxAttentionKeyDim * kMaxAttentionRows];  // [element][row]
  alignas(64) float keys_[kElementsAtOnce * kChunk];                    // [element][position]
};
