// Products of bfloat16 rows with a weight in panels, through AMX tiles. 32 elements of the depth of
// a panel are a tile as they are, and so are those of 16 rows of x. The sum of an output is one
// chain of instructions over the depth, 32 elements each. So it depends on nothing but the depth,
// and a row has the same bits in any batch.

constexpr int64_t kTileDepth = 32;
constexpr int64_t kTileElements = kTileDepth * kPanelColumns;
constexpr int64_t kSumsOfTile = int64_t{kTileHeight} * kTileSumColumns;
// Rows and columns that eight tiles multiply: two by two tiles of sums.
constexpr int64_t kGroupRows = int64_t{2} * kTileHeight;
constexpr int64_t kGroupColumns = int64_t{2} * kPanelColumns;
// With more rows, the depth is cut: so many tiles of two panels and of 32 rows fit into the first
// cache level. Sums wait in memory between two chunks.
constexpr int64_t kChunkTiles = 8;

/// The part of the next chunk that is asked for while this one is computed.
struct NextChunk {
  const BFloat16* columns[2] = {};
  int first_line = 0;  // of the 32 cache lines of two tiles; no line: nothing
  int last_line = 0;
  const BFloat16* rows = nullptr;
  int64_t x_stride = 0;
  int first_row = 0;
  int last_row = 0;

  REPRISE_INLINE void prefetch(int64_t tile) const {
    for (int line = first_line; line < last_line; ++line) {
      __builtin_prefetch(columns[line / 16] + tile * kTileElements + line % 16 * 32, 0, 2);
    }
    for (int row = first_row; row < last_row; ++row) {
      __builtin_prefetch(rows + row * x_stride + tile * kTileDepth, 0, 2);
    }
  }
};

class TileProducts {
 public:
  /// Calls `store_row(r, sums)` with the sums of each row; see linear_sums.
  template <typename Columns, typename StoreRow>
  void run(const LinearArguments& a,
           const LinearBlock& block,
           const Columns& columns,
           const StoreRow& store_row) {
    if (block.rows == 0) return;
    x_ = static_cast<const BFloat16*>(a.x) + block.row * a.x_stride;
    x_stride_ = a.x_stride;
    rows_ = block.rows;
    num_tiles_ = a.depth / kTileDepth;
    rest_ = static_cast<int>(a.depth % kTileDepth);
    pairs_ = ceil_div(columns.size, kGroupColumns);
    for (int64_t p = 0; p < pairs_; ++p) {
      const int64_t c = p * kGroupColumns;
      panels_[p][0] = columns.weight[c];
      // A last panel without a neighbour is multiplied twice.
      panels_[p][1] = columns.weight[c + kPanelColumns < columns.size ? c + kPanelColumns : c];
    }
    // The weight of the next block begins behind that of this one.
    next_block_ = block.columns * a.depth;
    if (rows_ <= kGroupRows) {
      multiply_few_rows();
    } else {
      multiply_chunks();
    }
    float sums[kMostLinearColumns];
    for (int64_t r = 0; r < rows_; ++r) {
      for (int64_t c = 0; c < columns.size; c += kTileSumColumns) {
        const float* from = sums_of(r / kGroupRows, c / kGroupColumns) +
                            r % kGroupRows / kTileHeight * 2 * kSumsOfTile +
                            c % kGroupColumns / kTileSumColumns * kSumsOfTile +
                            r % kTileHeight * kTileSumColumns;
        for (int i = 0; i < kTileSumColumns; i += kLanes) store(sums + c + i, load(from + i));
      }
      store_row(r, sums);
    }
  }

 private:
  /// One group of rows: every weight is read once, so the sums stay in tiles over all chunks.
  void multiply_few_rows() {
    set_rows(rows_);
    for (int64_t p = 0; p < pairs_; ++p) {
      clear_sums();
      for (int64_t tile = 0; tile < num_tiles_; tile += kChunkTiles) {
        NextChunk next;
        next.last_line = 32;
        for (int i : {0, 1}) {
          next.columns[i] = tile + kChunkTiles < num_tiles_ ? tiles_of(p, i, tile + kChunkTiles)
                            : p + 1 < pairs_                ? panels_[p + 1][i]
                                                            : panels_[0][i] + next_block_;
        }
        add_tiles(0, p, tile, next);
      }
      if (rest_ != 0) add_rest(0, p);
      store_sums(sums_of(0, p));
    }
  }

  /// A chunk of the depth at a time, for all columns and rows. The last group may have fewer rows,
  /// so it comes after the others, because new shapes clear the tiles.
  void multiply_chunks() {
    const int64_t groups = rows_ / kGroupRows;
    const int64_t last_rows = rows_ % kGroupRows;
    for (int64_t tile = 0; tile < num_tiles_ || tile == 0; tile += kChunkTiles) {
      set_rows(kGroupRows);
      for (int64_t p = 0; p < pairs_; ++p) {
        for (int64_t g = 0; g < groups; ++g) multiply_chunk(g, p, tile);
      }
      if (last_rows == 0) continue;
      set_rows(last_rows);
      for (int64_t p = 0; p < pairs_; ++p) multiply_chunk(groups, p, tile);
    }
  }

  void multiply_chunk(int64_t group, int64_t pair, int64_t tile) {
    float* sums = sums_of(group, pair);
    if (tile == 0) {
      clear_sums();
    } else {
      load_sums(sums);
    }
    add_tiles(group, pair, tile, next_chunk(group, pair, tile));
    if (tile + kChunkTiles >= num_tiles_ && rest_ != 0) add_rest(group, pair);
    store_sums(sums);
  }

  /// All groups share the lines of the columns, and all pairs those of the rows.
  NextChunk next_chunk(int64_t group, int64_t pair, int64_t tile) const {
    const int64_t groups = ceil_div(rows_, kGroupRows);
    const int64_t rows = min_of(kGroupRows, rows_ - group * kGroupRows);
    const bool is_last = tile + kChunkTiles >= num_tiles_;
    NextChunk next;
    next.first_line = static_cast<int>(group * 32 / groups);
    next.last_line = static_cast<int>((group + 1) * 32 / groups);
    for (int i : {0, 1}) {
      next.columns[i] =
          is_last ? panels_[pair][i] + next_block_ : tiles_of(pair, i, tile + kChunkTiles);
    }
    if (is_last) return next;
    next.rows = rows_of(group, tile + kChunkTiles);
    next.x_stride = x_stride_;
    next.first_row = static_cast<int>(pair * rows / pairs_);
    next.last_row = static_cast<int>((pair + 1) * rows / pairs_);
    return next;
  }

  void add_tiles(int64_t group, int64_t pair, int64_t tile, const NextChunk& next) {
    const int64_t count = min_of(kChunkTiles, num_tiles_ - tile);
    const BFloat16* x = rows_of(group, tile);
    const BFloat16* left = tiles_of(pair, 0, tile);
    const BFloat16* right = tiles_of(pair, 1, tile);
    for (int64_t i = 0; i < count; ++i) {
      if (has_second_) {
        add_tile<true>(x, x_stride_, left, right);
      } else {
        add_tile<false>(x, x_stride_, left, right);
      }
      next.prefetch(i);
      x += kTileDepth;
      left += kTileElements;
      right += kTileElements;
    }
  }

  template <bool kHasSecond>
  REPRISE_INLINE void add_tile(const BFloat16* x,
                               int64_t x_stride,
                               const BFloat16* left,
                               const BFloat16* right) {
    constexpr auto kBytes = static_cast<int64_t>(sizeof(BFloat16));
    tiles_.load<kColumns0>(left, kTileRowBytes);
    tiles_.load<kRows0>(x, x_stride * kBytes);
    tiles_.add_bf16<kSums00, kRows0, kColumns0>();
    if constexpr (kHasSecond) {
      tiles_.load<kRows1>(x + kTileHeight * x_stride, x_stride * kBytes);
      tiles_.add_bf16<kSums10, kRows1, kColumns0>();
    }
    tiles_.load<kColumns1>(right, kTileRowBytes);
    tiles_.add_bf16<kSums01, kRows0, kColumns1>();
    if constexpr (kHasSecond) tiles_.add_bf16<kSums11, kRows1, kColumns1>();
  }

  /// The end of a depth that is no multiple of 32, with zeros behind it.
  void add_rest(int64_t group, int64_t pair) {
    BFloat16 x[kGroupRows * kTileDepth] = {};
    BFloat16 columns[2][kTileElements] = {};
    const int64_t rows = min_of(kGroupRows, rows_ - group * kGroupRows);
    const auto rest_bytes = static_cast<size_t>(rest_) * sizeof(BFloat16);
    const BFloat16* from = rows_of(group, num_tiles_);
    for (int64_t r = 0; r < rows; ++r) {
      __builtin_memcpy(x + r * kTileDepth, from + r * x_stride_, rest_bytes);
    }
    for (int i : {0, 1}) {
      __builtin_memcpy(columns[i], tiles_of(pair, i, num_tiles_), rest_bytes * kPanelColumns);
    }
    if (has_second_) {
      add_tile<true>(x, kTileDepth, columns[0], columns[1]);
    } else {
      add_tile<false>(x, kTileDepth, columns[0], columns[1]);
    }
  }

  /// The shapes for a group of 1 to 32 rows. \post sums are cleared or loaded next
  void set_rows(int64_t rows) {
    tiles_.configure(product_shapes(rows));
    has_second_ = rows > kTileHeight;
  }
  void clear_sums() {
    tiles_.clear<kSums00>();
    tiles_.clear<kSums01>();
    if (!has_second_) return;
    tiles_.clear<kSums10>();
    tiles_.clear<kSums11>();
  }
  void load_sums(const float* sums) {
    tiles_.load<kSums00>(sums, kTileRowBytes);
    tiles_.load<kSums01>(sums + kSumsOfTile, kTileRowBytes);
    if (!has_second_) return;
    tiles_.load<kSums10>(sums + 2 * kSumsOfTile, kTileRowBytes);
    tiles_.load<kSums11>(sums + 3 * kSumsOfTile, kTileRowBytes);
  }
  void store_sums(float* sums) const {
    tiles_.store<kSums00>(sums, kTileRowBytes);
    tiles_.store<kSums01>(sums + kSumsOfTile, kTileRowBytes);
    if (!has_second_) return;
    tiles_.store<kSums10>(sums + 2 * kSumsOfTile, kTileRowBytes);
    tiles_.store<kSums11>(sums + 3 * kSumsOfTile, kTileRowBytes);
  }

  float* sums_of(int64_t group, int64_t pair) {
    return sums_ + (group * pairs_ + pair) * 4 * kSumsOfTile;
  }
  const BFloat16* rows_of(int64_t group, int64_t tile) const {
    return x_ + group * kGroupRows * x_stride_ + tile * kTileDepth;
  }
  const BFloat16* tiles_of(int64_t pair, int panel, int64_t tile) const {
    return panels_[pair][panel] + tile * kTileElements;
  }

  Tiles tiles_;
  bool has_second_;  // half of the group's rows
  const BFloat16* x_;
  int64_t x_stride_;
  int64_t rows_;
  int64_t num_tiles_;  // of the depth
  int rest_;           // elements of the depth behind the last whole tile
  int64_t pairs_;      // of panels
  int64_t next_block_;
  const BFloat16* panels_[kMostLinearColumns / kGroupColumns][2];
  alignas(64) float sums_[kMostLinearRows * kMostLinearColumns];
};
