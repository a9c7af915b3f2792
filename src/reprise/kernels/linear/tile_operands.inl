// The rows, panels and sums of a product through AMX tiles. Both orders of tiles (few_row_tiles.inl
// and many_row_tiles.inl) work on them.

constexpr int64_t kBytesOfTile = int64_t{kTileHeight} * kTileRowBytes;
constexpr int64_t kSumsOfTile = int64_t{kTileHeight} * kTileSumColumns;

template <typename T>
struct TileOperands {
  using Sum = SumOfPanels<T>;
  static constexpr auto kSize = static_cast<int64_t>(sizeof(T));
  static constexpr int64_t kDepth = kTileRowBytes / kSize;  // elements of a row of a tile
  static constexpr int64_t kElements = kBytesOfTile / kSize;

  template <typename Columns>
  void set(const LinearArguments& a, const LinearBlock& block, const Columns& columns) {
    x = static_cast<const T*>(a.x) + block.row * a.x_stride;
    x_stride = a.x_stride;
    rows = block.rows;
    num_tiles = a.depth / kDepth;
    rest = static_cast<int>(a.depth % kDepth);
    panels = columns.size / kPanelColumns;
    for (int64_t p = 0; p < panels; ++p) panel[p] = columns.weight[p * kPanelColumns];
    next_block = block.columns * weight_row_elements<T>(a.depth);
  }

  [[nodiscard]] const T* rows_of(int64_t row, int64_t tile) const {
    return x + row * x_stride + tile * kDepth;
  }
  [[nodiscard]] const T* tiles_of(int64_t p, int64_t tile) const {
    return panel[p] + tile * kElements;
  }

  template <int kSums, int kRows, int kColumns>
  REPRISE_INLINE void add_product() {
    if constexpr (__is_same(T, int8_t)) {
      tiles.template add_i8_i8<kSums, kRows, kColumns>();
    } else {
      tiles.template add_bf16<kSums, kRows, kColumns>();
    }
  }

  /// Copies what is left of `count` rows after the last whole tile of the depth. Zeros must fill
  /// the rest of the tile.
  void copy_rest_of_rows(int64_t row, int64_t count, T* to) const {
    const T* from = rows_of(row, num_tiles);
    for (int64_t r = 0; r < count; ++r) {
      __builtin_memcpy(to + r * kDepth, from + r * x_stride, static_cast<size_t>(rest) * sizeof(T));
    }
  }
  void copy_rest_of_panel(int64_t p, T* to) const {
    const auto rest_bytes = static_cast<size_t>(rest) * sizeof(T);
    __builtin_memcpy(to, tiles_of(p, num_tiles), rest_bytes * kPanelColumns);
  }

  Tiles tiles;
  const T* x;
  int64_t x_stride;
  int64_t rows;
  int64_t num_tiles;  // of the depth
  int rest;           // elements of the depth after the last whole tile
  int64_t panels;
  const T* panel[kMostLinearColumns / kPanelColumns];
  int64_t next_block;  // the weight of the next block begins so many elements after this one's
  alignas(64) Sum sums[kMostLinearRows * kMostLinearColumns];
};
