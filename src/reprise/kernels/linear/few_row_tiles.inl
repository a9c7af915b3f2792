// The order of a product with up to 32 rows. Every weight is read once, from memory, and is used
// for two tiles of rows. Sums stay in tiles over the whole depth.

template <typename T>
class FewRowTiles {
  using Operands = TileOperands<T>;
  using Sum = typename Operands::Sum;
  static constexpr int64_t kDepth = Operands::kDepth;
  static constexpr int64_t kElements = Operands::kElements;

 public:
  explicit FewRowTiles(Operands& operands) : o_(operands) {
    o_.tiles.configure(product_shapes(o_.rows));
  }

  void multiply() {
    // A last panel without a partner is multiplied twice.
    for (int64_t p = 0; p < o_.panels; p += 2) {
      if (o_.rows > kTileHeight) {
        multiply<true>(p, min_of(p + 1, o_.panels - 1));
      } else {
        multiply<false>(p, min_of(p + 1, o_.panels - 1));
      }
    }
  }

  /// Sixteen sums of row `row` and panel `p`.
  [[nodiscard]] const Sum* sums_of(int64_t row, int64_t p) const {
    return o_.sums + ((p / 2 * 2 + row / kTileHeight) * 2 + p % 2) * kSumsOfTile +
           row % kTileHeight * kTileSumColumns;
  }

 private:
  template <bool kHasSecond>
  void multiply(int64_t left_panel, int64_t right_panel) {
    clear<kHasSecond>();
    const T* x = o_.x;
    const T* left = o_.tiles_of(left_panel, 0);
    const T* right = o_.tiles_of(right_panel, 0);
    for (int64_t i = 0; i < o_.num_tiles; ++i) {
      add_tile<kHasSecond>(x, o_.x_stride, left, right);
      if constexpr (kHasSecond) prefetch_next(left, right);
      x += kDepth;
      left += kElements;
      right += kElements;
    }
    if (o_.rest != 0) add_rest<kHasSecond>(left_panel, right_panel);
    store<kHasSecond>(o_.sums + left_panel * 2 * kSumsOfTile);
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
    o_.tiles.template load<kColumns0>(left, kTileRowBytes);
    o_.tiles.template load<kRows0>(x, x_stride * Operands::kSize);
    o_.template add_product<kSums00, kRows0, kColumns0>();
    if constexpr (kHasSecond) {
      o_.tiles.template load<kRows1>(x + kTileHeight * x_stride, x_stride * Operands::kSize);
      o_.template add_product<kSums10, kRows1, kColumns0>();
    }
    o_.tiles.template load<kColumns1>(right, kTileRowBytes);
    o_.template add_product<kSums01, kRows0, kColumns1>();
    if constexpr (kHasSecond) o_.template add_product<kSums11, kRows1, kColumns1>();
  }

  template <bool kHasSecond>
  void add_rest(int64_t left_panel, int64_t right_panel) {
    T x[kGroupRows * kDepth] = {};
    T columns[2][kElements] = {};
    o_.copy_rest_of_rows(0, o_.rows, x);
    o_.copy_rest_of_panel(left_panel, columns[0]);
    o_.copy_rest_of_panel(right_panel, columns[1]);
    add_tile<kHasSecond>(x, kDepth, columns[0], columns[1]);
  }

  template <bool kHasSecond>
  void clear() {
    o_.tiles.template clear<kSums00>();
    o_.tiles.template clear<kSums01>();
    if constexpr (!kHasSecond) return;
    o_.tiles.template clear<kSums10>();
    o_.tiles.template clear<kSums11>();
  }
  template <bool kHasSecond>
  void store(Sum* sums) const {
    o_.tiles.template store<kSums00>(sums, kTileRowBytes);
    o_.tiles.template store<kSums01>(sums + kSumsOfTile, kTileRowBytes);
    if constexpr (!kHasSecond) return;
    o_.tiles.template store<kSums10>(sums + 2 * kSumsOfTile, kTileRowBytes);
    o_.tiles.template store<kSums11>(sums + 3 * kSumsOfTile, kTileRowBytes);
  }

  Operands& o_;
};
