// The order of a product with more than 32 rows. Tiles multiply faster than the second cache level
// sends, so what passes between the two first levels decides. A chunk of four panels stays in the
// first level while all rows pass: 16 rows at a time are loaded once, multiplied with the four, and
// their sums are loaded and stored once. docs/adr/0120 has the arithmetic.

// Four panels of this many tiles of the depth are 32 KiB.
constexpr int64_t kMostChunkTiles = 8;
// With fewer rows, chunks are not prefetched: the weights are one long stream, which the processor
// prefetches itself.
constexpr int64_t kLeastRowsToPrefetch = 97;
// The most rows x tiles of the depth (1 MiB) that stay in the second cache level while weights pass
// through it. If there are more, all columns are multiplied with a chunk of the depth before the
// next chunk.
constexpr int64_t kCachedTiles = (int64_t{1} << 20) / kTileRowBytes;

/// The part of the next chunk that is prefetched while this chunk is multiplied.
template <typename T>
struct NextChunk {
  static constexpr auto kSize = static_cast<int64_t>(sizeof(T));
  const T* columns[kQuadPanels] = {};
  // Within the cache lines of one tile of each panel; if there are no lines, nothing is prefetched.
  int first_line = 0;
  int last_line = 0;
  const T* rows = nullptr;
  int64_t x_stride = 0;
  int64_t num_rows = 0;

  REPRISE_INLINE void prefetch(int64_t tile) const {
    for (int line = first_line; line < last_line; ++line) {
      const T* const panel = columns[line / kTileHeight];
      __builtin_prefetch(
          panel + (tile * kBytesOfTile + line % kTileHeight * kTileRowBytes) / kSize, 0, 2);
    }
    for (int64_t row = 0; row < num_rows; ++row) {
      __builtin_prefetch(rows + row * x_stride + tile * kTileRowBytes / kSize, 0, 2);
    }
  }
};

template <typename T>
class ManyRowTiles {
  using Operands = TileOperands<T>;
  using Sum = typename Operands::Sum;
  static constexpr int64_t kDepth = Operands::kDepth;
  static constexpr int64_t kElements = Operands::kElements;

 public:
  /// Divides the rows into groups of equal size, so that all have the same tile shapes. The last
  /// group may begin with rows of the previous group. Chunks are as equal as whole tiles allow.
  explicit ManyRowTiles(Operands& operands)
      : o_(operands),
        groups_(ceil_div(o_.rows, int64_t{kTileHeight})),
        group_rows_(ceil_div(o_.rows, groups_)),
        quads_(ceil_div(o_.panels, kQuadPanels)),
        chunk_tiles_(
            max_of(1, ceil_div(o_.num_tiles, max_of(1, ceil_div(o_.num_tiles, kMostChunkTiles))))),
        all_rows_stay_(o_.rows * o_.num_tiles <= kCachedTiles) {
    o_.tiles.configure(quad_shapes(group_rows_));
  }

  void multiply() {
    // A depth of less than one tile is one chunk without whole tiles.
    const int64_t end = max_of(1, o_.num_tiles);
    if (all_rows_stay_) {
      for (int64_t q = 0; q < quads_; ++q) {
        for (int64_t tile = 0; tile < end; tile += chunk_tiles_) multiply_chunk(q, tile);
      }
    } else {
      for (int64_t tile = 0; tile < end; tile += chunk_tiles_) {
        for (int64_t q = 0; q < quads_; ++q) multiply_chunk(q, tile);
      }
    }
  }

  /// Sixteen sums of row `row` and panel `p`.
  [[nodiscard]] const Sum* sums_of(int64_t row, int64_t p) const {
    const int64_t group = min_of(row / group_rows_, groups_ - 1);
    return sums_of_group(group, p / kQuadPanels) + p % kQuadPanels * kSumsOfTile +
           (row - first_row(group)) * kTileSumColumns;
  }

 private:
  [[nodiscard]] int64_t first_row(int64_t group) const {
    return min_of(group * group_rows_, o_.rows - group_rows_);
  }
  [[nodiscard]] Sum* sums_of_group(int64_t group, int64_t quad) const {
    return o_.sums + (group * quads_ + quad) * kQuadPanels * kSumsOfTile;
  }
  /// Panel i of a quad. A last quad with two panels or less is multiplied as two, one with three as
  /// four; the last panel then stands for the missing one.
  [[nodiscard]] int64_t panel_of(int64_t quad, int64_t i) const {
    return min_of(quad * kQuadPanels + i, o_.panels - 1);
  }

  void multiply_chunk(int64_t quad, int64_t tile) {
    if (quad * kQuadPanels + 2 >= o_.panels) {
      multiply_chunk<2>(quad, tile);
    } else {
      multiply_chunk<4>(quad, tile);
    }
  }

  template <int kPanels>
  void multiply_chunk(int64_t quad, int64_t tile) {
    const int64_t last = min_of(tile + chunk_tiles_, o_.num_tiles);
    const T* panels[kPanels];
    for (int i = 0; i < kPanels; ++i) panels[i] = o_.tiles_of(panel_of(quad, i), tile);
    for (int64_t g = 0; g < groups_; ++g) {
      Sum* const sums = sums_of_group(g, quad);
      if (tile == 0) {
        for_numbers<0, kPanels>([&](auto i)
                                    REPRISE_LAMBDA_INLINE { o_.tiles.template clear<i.value>(); });
      } else {
        for_numbers<0, kPanels>([&](auto i) REPRISE_LAMBDA_INLINE {
          o_.tiles.template load<i.value>(sums + i.value * kSumsOfTile, kTileRowBytes);
        });
      }
      const NextChunk<T> next = next_chunk(g, quad, tile);
      const T* const x = o_.rows_of(first_row(g), tile);
      for (int64_t i = 0; i < last - tile; ++i) {
        add_tile<kPanels>(x + i * kDepth, o_.x_stride, panels, i * kElements);
        next.prefetch(i);
      }
      if (last == o_.num_tiles && o_.rest != 0) add_rest<kPanels>(g, quad);
      for_numbers<0, kPanels>([&](auto i) REPRISE_LAMBDA_INLINE {
        o_.tiles.template store<i.value>(sums + i.value * kSumsOfTile, kTileRowBytes);
      });
    }
  }

  /// The lines that group g prefetches: its share of the next chunk of these panels, and its rows
  /// if they do not stay in the second cache level.
  [[nodiscard]] NextChunk<T> next_chunk(int64_t g, int64_t quad, int64_t tile) const {
    NextChunk<T> next;
    if (o_.rows < kLeastRowsToPrefetch) return next;
    constexpr int64_t kLines = kQuadPanels * kTileHeight;
    next.first_line = static_cast<int>(g * kLines / groups_);
    next.last_line = static_cast<int>((g + 1) * kLines / groups_);
    const bool is_last_chunk = tile + chunk_tiles_ >= o_.num_tiles;
    const bool leads_to_next_quad = is_last_chunk && all_rows_stay_ && quad + 1 < quads_;
    for (int i = 0; i < kQuadPanels; ++i) {
      next.columns[i] = !is_last_chunk       ? o_.tiles_of(panel_of(quad, i), tile + chunk_tiles_)
                        : leads_to_next_quad ? o_.tiles_of(panel_of(quad + 1, i), 0)
                        : all_rows_stay_     ? o_.tiles_of(panel_of(0, i), 0) + o_.next_block
                                             : o_.tiles_of(panel_of(quad, i), 0) + o_.next_block;
    }
    if (all_rows_stay_ || is_last_chunk) return next;
    const int64_t first = quad * group_rows_ / quads_;
    next.rows = o_.rows_of(first_row(g) + first, tile + chunk_tiles_);
    next.x_stride = o_.x_stride;
    next.num_rows = (quad + 1) * group_rows_ / quads_ - first;
    return next;
  }

  /// Two tiles of columns take turns, so that one is loaded while the other one is multiplied.
  template <int kPanels>
  REPRISE_INLINE void add_tile(const T* x,
                               int64_t x_stride,
                               const T* const (&panels)[kPanels],
                               int64_t offset) {
    o_.tiles.template load<kQuadRows>(x, x_stride * Operands::kSize);
    for_numbers<0, kPanels>([&](auto i) REPRISE_LAMBDA_INLINE {
      constexpr int kColumns = i.value % 2 == 0 ? kQuadColumns0 : kQuadColumns1;
      o_.tiles.template load<kColumns>(panels[i.value] + offset, kTileRowBytes);
      o_.template add_product<i.value, kQuadRows, kColumns>();
    });
  }

  /// Multiplies the elements that are left after the last whole tile of the depth.
  template <int kPanels>
  void add_rest(int64_t group, int64_t quad) {
    T x[kTileHeight * kDepth] = {};
    T columns[kPanels][kElements] = {};
    const T* panels[kPanels];
    o_.copy_rest_of_rows(first_row(group), group_rows_, x);
    for (int i = 0; i < kPanels; ++i) {
      o_.copy_rest_of_panel(panel_of(quad, i), columns[i]);
      panels[i] = columns[i];
    }
    add_tile<kPanels>(x, kDepth, panels, 0);
  }

  Operands& o_;
  int64_t groups_;
  int64_t group_rows_;
  int64_t quads_;
  int64_t chunk_tiles_;  // of all chunks but the last one
  bool all_rows_stay_;   // in the second cache level, while weights pass through it
};
