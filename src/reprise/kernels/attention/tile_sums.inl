// The parts of attention through AMX tiles that are not products: groups of rows, their sums, and
// the chunks of a span.

constexpr int64_t kTileBytes = int64_t{kTileHeight} * kTileRowBytes;

/// Up to 32 rows, and the positions [first, last) of the span that some of these rows see.
struct TileGroup {
  int row;    // the first
  int tiles;  // of rows
  int first;
  int last;

  int first_chunk() const { return first / kChunk; }
  int last_chunk() const { return static_cast<int>(ceil_div(last, kChunk)); }
};

/// The sums of all rows in the order of tiles: [group][value tile][row tile][element][row].
class TileSums {
 public:
  TileSums(int count, int padded, int64_t value_dim)
      : count_(count), padded_(padded), value_dim_(value_dim) {}

  float* tile(const TileGroup& group, int64_t value_tile, int row_tile) {
    return sums_ + group.row * value_dim_ + (value_tile * group.tiles + row_tile) * kSize;
  }

  /// Copies the sums of a state.
  void pack(const float* sums) {
    static constexpr float kZeros[kTileHeight] = {};
    for_tiles([&](int row, int64_t column, float* tile) {
      const void* rows[kTileHeight];
      for (int i = 0; i < kTileHeight; ++i) {
        rows[i] = row + i < count_ ? sums + (row + i) * value_dim_ + column : kZeros;
      }
      TileLayouts::transpose_words(rows, tile);
    });
  }

  /// Copies the sums back into the order of the state.
  void unpack(float* sums) {
    for_tiles([&](int row, int64_t column, float* tile) {
      const void* lines[kTileHeight];
      for (int i = 0; i < kTileHeight; ++i) lines[i] = tile + i * kTileHeight;
      alignas(64) float rows[kTileHeight][kTileHeight];
      TileLayouts::transpose_words(lines, rows);
      for (int i = 0; i < kTileHeight && row + i < count_; ++i) {
        __builtin_memcpy(sums + (row + i) * value_dim_ + column, rows[i], sizeof rows[i]);
      }
    });
  }

  /// Multiplies the sums of each row of a group by the correction of the row.
  void correct(const TileGroup& group, const float* corrections) {
    for (int64_t t = 0; t < value_dim_ / kTileHeight; ++t) {
      for (int row_tile = 0; row_tile < group.tiles; ++row_tile) {
        float* sums = tile(group, t, row_tile);
        for (int i = 0; i < kSize; i += kLanes) {
          const Vec correction = load(corrections + row_tile * kTileHeight + i % kTileHeight);
          store(sums + i, mul(load(sums + i), correction));
        }
      }
    }
  }

  /// Copies the sums of all rows of a group but one from `others`.
  void restore(const TileGroup& group, int row, const float* others) {
    float* sums = tile(group, 0, 0);
    for (int64_t i = 0; i < size(group); ++i) {
      const int64_t row_of = i / kSize % group.tiles * kTileHeight + i % kTileHeight;
      if (row_of != row) sums[i] = others[i];
    }
  }
  int64_t size(const TileGroup& group) const { return value_dim_ * group.tiles * kTileHeight; }

 private:
  static constexpr int kSize = kTileHeight * kTileSumColumns;  // of a tile

  /// Calls f(first row, first column, sums) for all tiles.
  template <typename F>
  void for_tiles(const F& f) {
    for (int row = 0; row < padded_; row += static_cast<int>(kGroupRows)) {
      const TileGroup group = {row, padded_ - row > kTileHeight ? 2 : 1, 0, 0};
      for (int64_t t = 0; t < value_dim_ / kTileHeight; ++t) {
        for (int row_tile = 0; row_tile < group.tiles; ++row_tile) {
          f(row + row_tile * kTileHeight, t * kTileHeight, tile(group, t, row_tile));
        }
      }
    }
  }

  int count_;   // rows
  int padded_;  // rows, with those that fill tiles
  int64_t value_dim_;
  alignas(64) float sums_[kMostSums];
};

/// One chunk of a span: its values for all rows, and the weights of one group of rows.
struct TileChunk {
  enum class Values : uint8_t { unknown, transposed, finite, not_finite };

  Values state;
  bool is_alone;       // each row of the group needs values of its own
  bool are_corrected;  // a correction of the group is not 1
  alignas(64) float corrections[kGroupRows];
  alignas(64) BFloat16 weights[2][kTileBytes / 2];  // by row tile
  alignas(64) BFloat16 values[kMaxAttentionHeadDim / kTileHeight][kTileBytes / 2];

  /// values[tile][element][position], with zeros outside of [begin, end). `from` are the values of
  /// the chunk. Calls `next()` after each tile.
  template <typename F>
  void transpose(
      const BFloat16* const* from, int begin, int end, int64_t value_dim, const F& next) {
    static constexpr BFloat16 kZeros[kTileHeight] = {};
    for (int64_t t = 0; t < value_dim / kTileHeight; ++t) {
      const BFloat16* columns[kChunk];
      for (int p = 0; p < kChunk; ++p) {
        columns[p] = p >= begin && p < end ? from[p] + t * kTileHeight : kZeros;
      }
      TileLayouts::transpose_columns(columns, values[t]);
      next();
    }
  }

  static bool are_finite(const BFloat16* const* from, int begin, int end, int64_t value_dim) {
    Vec differences = zero();
    for (int p = begin; p < end; ++p) {
      for (int64_t i = 0; i < value_dim; i += kLanes) {
        const Vec value = load(from[p] + i);
        differences = add(differences, sub(value, value));  // NaN if a value is not finite
      }
    }
    return sum(differences) == 0.0F;
  }
};

/// The lines of the keys and values of the next chunk. Cache blocks are scattered in memory, and
/// each is too short for the hardware prefetcher. A core can wait for about a dozen lines, so they
/// are asked for in parts: all at once would keep the loads of this chunk waiting.
struct NextLines {
  CacheLines keys;
  CacheLines values;
  int64_t at_once;

  /// The positions [first, first + count) of `from`. They are asked for in `steps` parts.
  template <typename Pointers>
  void find(
      const Pointers& from, int first, int count, const AttentionKernelArguments& a, int steps) {
    keys = from.key_lines(first + count, a);
    values = from.value_lines(first + count, a);
    for (CacheLines* lines : {&keys, &values}) {
      if (lines->row != lines->last_row) lines->row += first * sizeof(void*);
    }
    at_once = ceil_div(a.head_dim * kChunk * 2, kCacheLine * steps);
  }
  void ask() {
    for (int64_t i = 0; i < at_once; ++i) {
      keys.prefetch_next<3>();  // the first-level cache
      values.prefetch_next<3>();
    }
  }
};
