// Products of several quantised rows with unpacked panels by AMX tiles. A tile product is the exact
// integer sum of a block for up to 16 rows and the 16 columns of a panel. Vectors then scale the
// sums, in the order of panel_tile(). So the bits are the same as with vectors only.
#ifdef REPRISE_ISA_HAS_TILES

constexpr int kTilePanels = 2;  // number of panels that share a tile of x
constexpr int64_t kTileSums = kTileHeight * kTileSumColumns;
constexpr int kRowsTile = 4;
constexpr int kPanelTile = 6;  // and 7

// Whether tiles are faster than vectors; the choice does not change the bits. A tile takes the same
// time for one row as for 16, so a few rows more than a multiple of 16 are slow. Formats whose half
// blocks have scales of their own would fill only a quarter of a tile's depth. See docs/adr/0036.
inline bool tiles_are_faster(const PanelSlots& slots, int64_t rows) {
  bool all_are_plain = true;
  for (int s = 0; s < slots.size; ++s) {
    const PanelTraits traits = panel_traits(slots.of[s].format);
    if (traits.parts != 1) return false;
    all_are_plain = all_are_plain && !traits.is_wide() && !traits.has_least;
  }
  const int64_t least = all_are_plain ? 25 : 41;
  return rows >= least && ceil_div(rows, kTileHeight) * kTileHeight * 10 <= rows * 13;
}

// Up to 16 rows, up to two panels, and up to kChunkBlocks blocks.
struct TileUnit {
  const ActivationBlock* x;
  int64_t x_blocks;  // between rows
  int rows;
  int panels;
  const UnpackedPanel* panel[kTilePanels];
  float* totals[kTilePanels];
  bool is_first;        // the totals begin at 0
  const float* x_sums;  // [rows][kChunkBlocks]; used for formats with a least value only
  // Memory that is prefetched while vectors scale, row by row: the next rows of x, or nullptr; and
  // the next blocks of the panels, `lines_ahead` cache lines per row.
  const ActivationBlock* x_ahead;
  const uint8_t* panel_ahead[kTilePanels];
  int lines_ahead;

  [[nodiscard]] int64_t x_stride() const {
    return x_blocks * static_cast<int64_t>(sizeof(ActivationBlock));
  }
};

inline TileShapes panel_tile_shapes(int64_t rows) {
  TileShapes shapes;
  for (int t : {0, 1, 2, 3}) shapes.set(t, static_cast<int>(rows), kTileRowBytes);
  shapes.set(kRowsTile, static_cast<int>(rows), kPanelBlock);
  for (int t : {kPanelTile, kPanelTile + 1}) shapes.set(t, kPanelBlock / 4, kTileRowBytes);
  return shapes;
}

// The integer sums of a unit.
struct alignas(64) TileUnitSums {
  int32_t of[kTilePanels][kChunkBlocks][kTileSums];
};

// The products of one block, in tiles kSums and kSums + 1.
template <int kSums>
REPRISE_INLINE void multiply_block(Tiles& tiles, const TileUnit& unit, int64_t block) {
  tiles.load<kRowsTile>(unit.x[block].codes, unit.x_stride());
  tiles.clear<kSums>();
  tiles.load<kPanelTile>(unit.panel[0]->codes + block * 512, kTileRowBytes);
  tiles.add_i8_i8<kSums, kRowsTile, kPanelTile>();
  tiles.clear<kSums + 1>();
  tiles.load<kPanelTile + 1>(unit.panel[1]->codes + block * 512, kTileRowBytes);
  tiles.add_i8_i8<kSums + 1, kRowsTile, kPanelTile + 1>();
}

template <int kSums>
REPRISE_INLINE void store_block(const Tiles& tiles, int64_t block, TileUnitSums& sums) {
  tiles.store<kSums>(sums.of[0][block], kTileRowBytes);
  tiles.store<kSums + 1>(sums.of[1][block], kTileRowBytes);
}

// Computes all products of a unit. One pair of tiles is stored while another pair is computed.
// Scaling follows later, because the core does not run tile and vector instructions at the same
// time.
inline void multiply_unit(Tiles& tiles, const TileUnit& unit, int64_t blocks, TileUnitSums& sums) {
  for (int64_t block = 0; block < blocks; block += 2) {
    multiply_block<0>(tiles, unit, block);
    if (block > 0) store_block<2>(tiles, block - 1, sums);
    if (block + 1 < blocks) multiply_block<2>(tiles, unit, block + 1);
    store_block<0>(tiles, block, sums);
  }
  if (blocks % 2 == 0) store_block<2>(tiles, blocks - 1, sums);
}

// totals += scaled sums, for one panel.
template <bool kLeast, int kBlocks>
inline void scale_unit(const TileUnit& unit, int p, const TileUnitSums& sums) {
  Panel::Floats scales[kBlocks];
  Panel::Floats least[kLeast ? kBlocks : 1];
#pragma GCC unroll 8
  for (int i = 0; i < kBlocks; ++i) {
    scales[i] = Panel::load_floats(unit.panel[p]->scales + i * kPanelColumns);
    if constexpr (kLeast) least[i] = Panel::load_floats(unit.panel[p]->least + i * kPanelColumns);
  }
  const ActivationBlock* x = unit.x;
  const int32_t* of_row = sums.of[p][0];
  float* totals = unit.totals[p];
  const auto* x_ahead = reinterpret_cast<const uint8_t*>(p == 0 ? unit.x_ahead : nullptr);
  const uint8_t* panel_ahead = unit.panel_ahead[p];
  for (int r = 0; r < unit.rows; ++r) {
    Panel::Floats total = unit.is_first ? Panel::Floats{} : Panel::load_floats(totals);
#pragma GCC unroll 8
    for (int i = 0; i < kBlocks; ++i) {
      total =
          Panel::accumulate(Panel::load_sums(of_row + i * kTileSums), scales[i], x[i].scale, total);
      if constexpr (kLeast) {
        total = Panel::accumulate(least[i], unit.x_sums[r * kChunkBlocks + i], total);
      }
    }
    Panel::store(totals, total);
    x += unit.x_blocks;
    of_row += kTileSumColumns;
    totals += kPanelSumStride;
    prefetch_bytes(panel_ahead, unit.lines_ahead * 64);
    panel_ahead += unit.lines_ahead * 64;
    if (x_ahead != nullptr) {
      constexpr int64_t kBytes = kChunkBlocks * static_cast<int64_t>(sizeof(ActivationBlock));
      for (int64_t i = 0; i <= kBytes; i += 64) __builtin_prefetch(x_ahead + i, 0, 3);
      x_ahead += unit.x_stride();
    }
  }
}

// A stretch of blocks, for all rows and slots.
struct TileStretch {
  const ActivationBlock* x;  // in the first row
  int64_t rows;
  int64_t x_blocks;  // between rows
  int64_t begin;
  int64_t blocks;
  int64_t depth;  // blocks of a whole row
  float* sums;
};

// Computes the factors of the least values: the scales of x times the sums of its codes.
inline void scale_x_sums(const TileStretch& stretch, int64_t row, int64_t rows, float* x_sums) {
  for (int64_t r = 0; r < rows; ++r) {
    const ActivationBlock* x = stretch.x + (row + r) * stretch.x_blocks;
    for (int64_t i = 0; i < stretch.blocks; ++i) {
      x_sums[r * kChunkBlocks + i] = x[i].scale * static_cast<float>(sum_of(x[i], 0, 1));
    }
  }
}

// Multiplies the slots [begin, end) of a stretch, which are of one kind.
template <bool kLeast>
inline void multiply_stretch(Tiles& tiles,
                             const TileStretch& stretch,
                             const PanelSlots& slots,
                             const UnpackedPanel* unpacked,
                             int begin,
                             int end) {
  const int64_t next = stretch.begin + kChunkBlocks;
  TileUnitSums unit_sums;
  float x_sums[kLeast ? kTileHeight * kChunkBlocks : 1];
  for (int64_t row = 0; row < stretch.rows; row += kTileHeight) {
    const int64_t rows = min_of(kTileHeight, stretch.rows - row);
    tiles.configure(panel_tile_shapes(rows));
    if constexpr (kLeast) scale_x_sums(stretch, row, rows, x_sums);
    const ActivationBlock* x = stretch.x + row * stretch.x_blocks;
    const bool has_ahead = row + 2 * kTileHeight <= stretch.rows;
    for (int s = begin; s < end; s += kTilePanels) {
      // A panel without a partner is multiplied twice, but scaled only once.
      const int panels = static_cast<int>(min_of(kTilePanels, end - s));
      const int other = s + panels - 1;
      float* totals = stretch.sums + row * kPanelSumStride;
      const int64_t bytes = chunk_offset(slots.of[s].format, kChunkBlocks);
      const TileUnit unit = {
          .x = x,
          .x_blocks = stretch.x_blocks,
          .rows = static_cast<int>(rows),
          .panels = panels,
          .panel = {&unpacked[s], &unpacked[other]},
          .totals = {totals + s * kPanelColumns, totals + other * kPanelColumns},
          .is_first = stretch.begin == 0,
          .x_sums = x_sums,
          .x_ahead = s == begin && has_ahead ? x + kTileHeight * stretch.x_blocks : nullptr,
          .panel_ahead = {panel_ahead(slots, s, next, stretch.depth),
                          panel_ahead(slots, other, next, stretch.depth)},
          .lines_ahead = row == 0 ? static_cast<int>(ceil_div(bytes, 64 * rows)) : 0};
      multiply_unit(tiles, unit, stretch.blocks, unit_sums);
      for_numbers<1, kChunkBlocks + 1>([&](auto blocks) REPRISE_LAMBDA_INLINE {
        if (stretch.blocks != blocks.value) return;
        for (int p = 0; p < panels; ++p) scale_unit<kLeast, blocks.value>(unit, p, unit_sums);
      });
    }
  }
}

// `stretch_of(begin, count)`: see RowStretch.
template <typename StretchOf>
inline void multiply_by_tiles(const StretchOf& stretch_of,
                              int64_t rows,
                              int64_t blocks,
                              const PanelSlots& slots,
                              float* sums) {
  UnpackedPanel unpacked[kMaxPanelSlots];
  Tiles tiles;
  for (int64_t begin = 0; begin < blocks; begin += kChunkBlocks) {
    const int64_t count = min_of(kChunkBlocks, blocks - begin);
    const RowStretch x = stretch_of(begin, count);
    const TileStretch stretch = {.x = x.x,
                                 .rows = rows,
                                 .x_blocks = x.x_blocks,
                                 .begin = begin,
                                 .blocks = count,
                                 .depth = blocks,
                                 .sums = sums};
    for (int s = 0; s < slots.size; ++s) {
      unpack_panel<true>(
          slots.of[s].format, slots.of[s].panel, begin, stretch.blocks, rows, unpacked[s]);
    }
    for (int s = 0; s < slots.size;) {
      const bool has_least = panel_traits(slots.of[s].format).has_least;
      int end = s + 1;
      while (end < slots.size && panel_traits(slots.of[end].format).has_least == has_least) ++end;
      if (has_least) {
        multiply_stretch<true>(tiles, stretch, slots, unpacked, s, end);
      } else {
        multiply_stretch<false>(tiles, stretch, slots, unpacked, s, end);
      }
      s = end;
    }
  }
}

#endif
