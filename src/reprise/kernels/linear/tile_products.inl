// Products of rows of bfloat16 or int8 with a weight in panels of this type, through AMX tiles. 64
// bytes of the depth of a panel are a tile without conversion, and so are those of 16 rows of x.
// The sum of an output is one chain of instructions over the depth, one tile each. So it depends
// only on the depth, and a row has the same bits in any batch. Sums of int8 are exact, in int32.

constexpr int64_t kBytesOfTile = int64_t{kTileHeight} * kTileRowBytes;
constexpr int64_t kSumsOfTile = int64_t{kTileHeight} * kTileSumColumns;
// The number of columns that eight tiles multiply: two by two tiles of sums.
constexpr int64_t kGroupColumns = int64_t{2} * kPanelColumns;
// With more rows, the depth is divided into chunks of this many tiles: those of two panels and of
// 32 rows fit into the first cache level. Between two chunks, the sums are in memory.
constexpr int64_t kChunkTiles = 8;
// With fewer groups of rows, chunks are not prefetched: the weights are one long stream, which the
// processor prefetches itself.
constexpr int64_t kLeastGroupsToPrefetch = 4;
// The most rows x tiles of the depth (1 MiB) that stay in the second cache level while weights pass
// through it. If there are more, all columns are multiplied with a chunk of the depth before the
// next chunk.
constexpr int64_t kCachedTiles = (int64_t{1} << 20) / kTileRowBytes;

/// The part of the next chunk that is prefetched while this chunk is computed.
template <typename T>
struct NextChunk {
  static constexpr auto kSize = static_cast<int64_t>(sizeof(T));
  const T* columns[2] = {};
  // Within the 32 cache lines of two tiles; if there are no lines, nothing is prefetched.
  int first_line = 0;
  int last_line = 0;
  const T* rows = nullptr;
  int64_t x_stride = 0;
  int first_row = 0;
  int last_row = 0;

  REPRISE_INLINE void prefetch(int64_t tile) const {
    for (int line = first_line; line < last_line; ++line) {
      __builtin_prefetch(columns[line / 16] + (tile * kBytesOfTile + line % 16 * 64) / kSize, 0, 2);
    }
    for (int row = first_row; row < last_row; ++row) {
      __builtin_prefetch(rows + row * x_stride + tile * kTileRowBytes / kSize, 0, 2);
    }
  }
};

template <typename T>
class TileProducts {
  using Sum = SumOfPanels<T>;
  static constexpr auto kSize = static_cast<int64_t>(sizeof(T));
  static constexpr int64_t kDepth = kTileRowBytes / kSize;  // elements of a row of a tile
  static constexpr int64_t kElements = kBytesOfTile / kSize;

 public:
  /// Calls `store_row(r, sums)` with the sums of each row; see linear_sums.
  template <typename Columns, typename StoreRow>
  void run(const LinearArguments& a,
           const LinearBlock& block,
           const Columns& columns,
           const StoreRow& store_row) {
    if (block.rows == 0) return;
    set_rows(a, block);
    num_tiles_ = a.depth / kDepth;
    rest_ = static_cast<int>(a.depth % kDepth);
    pairs_ = ceil_div(columns.size, kGroupColumns);
    for (int64_t p = 0; p < pairs_; ++p) {
      const int64_t c = p * kGroupColumns;
      panels_[p][0] = columns.weight[c];
      // A last panel without a partner is multiplied twice.
      panels_[p][1] = columns.weight[c + kPanelColumns < columns.size ? c + kPanelColumns : c];
    }
    // The weight of the next block begins after that of this block.
    next_block_ = block.columns * weight_row_elements<T>(a.depth);
    multiply();
    float sums[kMostLinearColumns];
    for (int64_t g = 0; g < groups_; ++g) {
      // The last group may begin with rows of the previous group.
      for (int64_t r = g * group_rows_ - first_row(g); r < group_rows_; ++r) {
        for (int64_t c = 0; c < columns.size; c += kTileSumColumns) {
          const Sum* from = sums_of(g, c / kGroupColumns) + r / kTileHeight * 2 * kSumsOfTile +
                            c % kGroupColumns / kTileSumColumns * kSumsOfTile +
                            r % kTileHeight * kTileSumColumns;
          finish_sums(from, a, block.row + first_row(g) + r, columns.weight[c], sums + c);
        }
        store_row(first_row(g) + r, sums);
      }
    }
  }

 private:
  /// Divides the rows into groups of equal size, so that all have the same tile shapes.
  void set_rows(const LinearArguments& a, const LinearBlock& block) {
    x_ = static_cast<const T*>(a.x) + block.row * a.x_stride;
    x_stride_ = a.x_stride;
    rows_ = block.rows;
    groups_ = ceil_div(rows_, kGroupRows);
    group_rows_ = ceil_div(rows_, groups_);
    has_second_ = group_rows_ > kTileHeight;
    tiles_.configure(product_shapes(group_rows_));
  }
  int64_t first_row(int64_t group) const {
    return min_of(group * group_rows_, rows_ - group_rows_);
  }

  void multiply() {
    if (groups_ == 1) {
      // Every weight is read once, so the sums stay in tiles over all chunks.
      for (int64_t p = 0; p < pairs_; ++p) {
        clear_sums();
        for (int64_t tile = 0; tile < num_tiles_; tile += kChunkTiles) {
          add_tiles(0, p, tile, next_of_pair(0, p, tile));
        }
        if (rest_ != 0) add_rest(0, p);
        store_sums(sums_of(0, p));
      }
    } else if (rows_ * num_tiles_ <= kCachedTiles) {
      for (int64_t p = 0; p < pairs_; ++p) {
        for (int64_t tile = 0; tile < num_tiles_ || tile == 0; tile += kChunkTiles) {
          for (int64_t g = 0; g < groups_; ++g) {
            multiply_chunk(g, p, tile, next_of_pair(g, p, tile));
          }
        }
      }
    } else {
      for (int64_t tile = 0; tile < num_tiles_ || tile == 0; tile += kChunkTiles) {
        for (int64_t p = 0; p < pairs_; ++p) {
          for (int64_t g = 0; g < groups_; ++g) {
            multiply_chunk(g, p, tile, next_of_all(g, p, tile));
          }
        }
      }
    }
  }

  void multiply_chunk(int64_t group, int64_t pair, int64_t tile, const NextChunk<T>& next) {
    Sum* sums = sums_of(group, pair);
    if (tile == 0) {
      clear_sums();
    } else {
      load_sums(sums);
    }
    add_tiles(group, pair, tile, next);
    if (tile + kChunkTiles >= num_tiles_ && rest_ != 0) add_rest(group, pair);
    store_sums(sums);
  }

  /// The next chunk of the pair, or the next pair. All groups share the lines.
  NextChunk<T> next_of_pair(int64_t group, int64_t pair, int64_t tile) const {
    NextChunk<T> next;
    if (groups_ < kLeastGroupsToPrefetch) return next;
    next.first_line = static_cast<int>(group * 32 / groups_);
    next.last_line = static_cast<int>((group + 1) * 32 / groups_);
    for (int i : {0, 1}) {
      next.columns[i] = tile + kChunkTiles < num_tiles_ ? tiles_of(pair, i, tile + kChunkTiles)
                        : pair + 1 < pairs_             ? panels_[pair + 1][i]
                                                        : panels_[0][i] + next_block_;
    }
    return next;
  }

  /// The next chunk of all pairs, or the next block. All pairs share the lines of the rows.
  NextChunk<T> next_of_all(int64_t group, int64_t pair, int64_t tile) const {
    NextChunk<T> next = next_of_pair(group, pair, tile);
    if (tile + kChunkTiles >= num_tiles_) {
      for (int i : {0, 1}) next.columns[i] = panels_[pair][i] + next_block_;
      return next;
    }
    next.rows = rows_of(group, tile + kChunkTiles);
    next.x_stride = x_stride_;
    next.first_row = static_cast<int>(pair * group_rows_ / pairs_);
    next.last_row = static_cast<int>((pair + 1) * group_rows_ / pairs_);
    return next;
  }

  void add_tiles(int64_t group, int64_t pair, int64_t tile, const NextChunk<T>& next) {
    const int64_t count = min_of(kChunkTiles, num_tiles_ - tile);
    const T* x = rows_of(group, tile);
    const T* left = tiles_of(pair, 0, tile);
    const T* right = tiles_of(pair, 1, tile);
    for (int64_t i = 0; i < count; ++i) {
      if (has_second_) {
        add_tile<true>(x, x_stride_, left, right);
        if (groups_ == 1) prefetch_next(left, right);
      } else {
        add_tile<false>(x, x_stride_, left, right);
      }
      next.prefetch(i);
      x += kDepth;
      left += kElements;
      right += kElements;
    }
  }

  /// Prefetches the next tile of two panels. With 17 to 32 rows, the processor without this reads
  /// weights at 0.8 of the bandwidth; with fewer rows it needs no help.
  static REPRISE_INLINE void prefetch_next(const T* left, const T* right) {
#pragma GCC unroll 16
    for (int line = 0; line < kTileHeight; ++line) {
      __builtin_prefetch(left + kElements + line * kDepth, 0, 2);
      __builtin_prefetch(right + kElements + line * kDepth, 0, 2);
    }
  }

  template <bool kHasSecond>
  REPRISE_INLINE void add_tile(const T* x, int64_t x_stride, const T* left, const T* right) {
    constexpr auto kBytes = static_cast<int64_t>(sizeof(T));
    tiles_.template load<kColumns0>(left, kTileRowBytes);
    tiles_.template load<kRows0>(x, x_stride * kBytes);
    add_product<kSums00, kRows0, kColumns0>();
    if constexpr (kHasSecond) {
      tiles_.template load<kRows1>(x + kTileHeight * x_stride, x_stride * kBytes);
      add_product<kSums10, kRows1, kColumns0>();
    }
    tiles_.template load<kColumns1>(right, kTileRowBytes);
    add_product<kSums01, kRows0, kColumns1>();
    if constexpr (kHasSecond) add_product<kSums11, kRows1, kColumns1>();
  }

  template <int kSums, int kRows, int kColumns>
  REPRISE_INLINE void add_product() {
    if constexpr (__is_same(T, int8_t)) {
      tiles_.template add_i8_i8<kSums, kRows, kColumns>();
    } else {
      tiles_.template add_bf16<kSums, kRows, kColumns>();
    }
  }

  /// Multiplies the elements that are left after the last whole tile of the depth. Zeros fill the
  /// rest of their tile.
  void add_rest(int64_t group, int64_t pair) {
    T x[kGroupRows * kDepth] = {};
    T columns[2][kElements] = {};
    const auto rest_bytes = static_cast<size_t>(rest_) * sizeof(T);
    const T* from = rows_of(group, num_tiles_);
    for (int64_t r = 0; r < group_rows_; ++r) {
      __builtin_memcpy(x + r * kDepth, from + r * x_stride_, rest_bytes);
    }
    for (int i : {0, 1}) {
      __builtin_memcpy(columns[i], tiles_of(pair, i, num_tiles_), rest_bytes * kPanelColumns);
    }
    if (has_second_) {
      add_tile<true>(x, kDepth, columns[0], columns[1]);
    } else {
      add_tile<false>(x, kDepth, columns[0], columns[1]);
    }
  }

  void clear_sums() {
    tiles_.template clear<kSums00>();
    tiles_.template clear<kSums01>();
    if (!has_second_) return;
    tiles_.template clear<kSums10>();
    tiles_.template clear<kSums11>();
  }
  void load_sums(const Sum* sums) {
    tiles_.template load<kSums00>(sums, kTileRowBytes);
    tiles_.template load<kSums01>(sums + kSumsOfTile, kTileRowBytes);
    if (!has_second_) return;
    tiles_.template load<kSums10>(sums + 2 * kSumsOfTile, kTileRowBytes);
    tiles_.template load<kSums11>(sums + 3 * kSumsOfTile, kTileRowBytes);
  }
  void store_sums(Sum* sums) const {
    tiles_.template store<kSums00>(sums, kTileRowBytes);
    tiles_.template store<kSums01>(sums + kSumsOfTile, kTileRowBytes);
    if (!has_second_) return;
    tiles_.template store<kSums10>(sums + 2 * kSumsOfTile, kTileRowBytes);
    tiles_.template store<kSums11>(sums + 3 * kSumsOfTile, kTileRowBytes);
  }

  Sum* sums_of(int64_t group, int64_t pair) {
    return sums_ + (group * pairs_ + pair) * 4 * kSumsOfTile;
  }
  const T* rows_of(int64_t group, int64_t tile) const {
    return x_ + first_row(group) * x_stride_ + tile * kDepth;
  }
  const T* tiles_of(int64_t pair, int panel, int64_t tile) const {
    return panels_[pair][panel] + tile * kElements;
  }

  Tiles tiles_;
  const T* x_;
  int64_t x_stride_;
  int64_t rows_;
  int64_t groups_;
  int64_t group_rows_;
  bool has_second_;    // a group has more rows than one tile
  int64_t num_tiles_;  // of the depth
  int rest_;           // elements of the depth after the last whole tile
  int64_t pairs_;      // of panels
  int64_t next_block_;
  const T* panels_[kMostLinearColumns / kGroupColumns][2];
  alignas(64) Sum sums_[kMostLinearRows * kMostLinearColumns];
};
