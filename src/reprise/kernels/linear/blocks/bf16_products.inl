// Products of many quantised rows with packed weights through tiles of bfloat16. Rows and weights
// are dequantised to bfloat16, and the tiles sum the whole depth of an output. Only kernels without
// batch invariance use this: few rows are still multiplied as integers, block by block, so the bits
// of a row in a large batch differ from those of the row alone (docs/adr/0047).
#ifdef REPRISE_ISA_HAS_TILES

// The fewest rows for which tiles of bfloat16 are faster than exact integer sums. Measured on AMX:
// benchmarks/results/2026-11-23-bf16-tiles-for-packed-weights.md has the table and its method.
constexpr int64_t kLeastRowsInBf16 = 24;

// The number of neighbouring blocks of the grid whose products share the dequantised rows.
constexpr int kMostPanelGroups = 7;
constexpr int64_t kMostGroupedPanels = int64_t{kMostPanelGroups} * kMaxPanelSlots;
// The most rows of a block of the grid, after padding that makes all groups of rows equally large.
constexpr int64_t kMostPaddedRows = kMaxPanelTileRows + kMaxPanelTileRows / kTileHeight;
constexpr int64_t kStretchElements = kChunkBlocks * kPanelBlock;
constexpr int64_t kTileWeights = kTileDepth * kPanelColumns;
// The distance of dequantised rows includes this padding, so that the rows of a tile are in
// different cache sets.
constexpr int64_t kRowPadding = kPanelBlock;
constexpr int64_t kMostRowElements = kMostPaddedRows * (kStretchElements + kRowPadding);
constexpr int64_t kGroupSumStride = kMaxPanelSlots * kPanelColumns;

// One super-block of a panel as tiles of bfloat16. Returns the end of the super-block.
template <PanelFormat kFormat>
REPRISE_INLINE const uint8_t* dequantize_super_block(const uint8_t* panel, BFloat16* to) {
  using Unpacker = PanelUnpacker<kFormat>;
  constexpr PanelTraits kTraits = Unpacker::kTraits;
  constexpr int kGroups = 8 / kTraits.parts;
  const uint8_t* head = panel;
  panel += Unpacker::kHeadBytes;
  for (int b = 0; b < Unpacker::kLayout.super_blocks; ++b, panel += Unpacker::kBlockBytes) {
    prefetch_bytes(panel + kPrefetchBytes, Unpacker::kBlockBytes);
    for_numbers<0, kTraits.parts>([&](auto part) REPRISE_LAMBDA_INLINE {
      const Panel::Floats scales = Unpacker::template scales<part.value>(head, panel);
      Panel::Floats least;
      if constexpr (kTraits.has_least) {
        least = Unpacker::template least<part.value>(head, panel);
      } else {
        least = Panel::times(scales, Panel::all(static_cast<float>(-kTraits.offset)));
      }
      for_numbers<part.value * kGroups, (part.value + 1) * kGroups>(
          [&](auto group) REPRISE_LAMBDA_INLINE {
            Panel::store_elements(to + group.value * int64_t{64},
                                  Unpacker::template codes<group.value>(panel),
                                  scales,
                                  least);
          });
    });
    to += kPanelBlock * kPanelColumns;
  }
  return panel;
}

// Dequantises whole super-blocks of one panel, or of two panels side by side: the processor
// prefetches two streams as fast as one.
template <PanelFormat kFormat>
inline void dequantize_panels(const uint8_t* const (&panels)[2],
                              int64_t blocks,
                              BFloat16 (*to)[kChunkBlocks * kTileWeights]) {
  constexpr int64_t kSuperBlocks = PanelUnpacker<kFormat>::kLayout.super_blocks;
  const uint8_t* left = panels[0];
  const uint8_t* right = panels[1];
  for (int64_t b = 0; b < blocks; b += kSuperBlocks) {
    const int64_t at = b * kPanelBlock * kPanelColumns;
    if (left != nullptr) left = dequantize_super_block<kFormat>(left, to[0] + at);
    if (right != nullptr) right = dequantize_super_block<kFormat>(right, to[1] + at);
  }
}

/// The products of one block of rows with the panels of up to kMostPanelGroups blocks of the grid.
class Bf16Products {
 public:
  /// Calls `store_row(slots, row, sums)` for each row of each group. The sums of slot s begin at s
  /// * kPanelColumns.
  template <typename StoreRow>
  void run(const BlockLinearArguments& a,
           int64_t row,
           int64_t rows,
           const PanelSlots* groups,
           int num_groups,
           const StoreRow& store_row) {
    set_rows(a, row, rows);
    num_panels_ = 0;
    for (int g = 0; g < num_groups; ++g) {
      for (int s = 0; s < groups[g].size; ++s) {
        panels_[num_panels_++] = {.slot = &groups[g].of[s],
                                  .sums = sums_of(g, 0) + s * kPanelColumns};
      }
    }
    for (int64_t begin = 0; begin < blocks_; begin += blocks_at_once_) {
      const int64_t end = min_of(blocks_, begin + blocks_at_once_);
      dequantize_rows(begin, end - begin);
      if (row_groups_ == 1) {
        for (int p = 0; p < num_panels_; p += 2) multiply_pair(p, begin, end);
      } else {
        for (int p = 0; p < num_panels_; p += 4) multiply_four(p, begin, end);
      }
    }
    for (int g = 0; g < num_groups; ++g) {
      for (int64_t r = 0; r < rows; ++r) store_row(groups[g], row + r, sums_of(g, r));
    }
  }

 private:
  struct PanelSums {
    const PanelSlot* slot;
    float* sums;  // of row 0
  };

  /// Divides the rows into groups of equal size, so that all have the same tile shapes. Zeros fill
  /// the last group. One group has up to two tiles of rows; of several, each has one, and they
  /// share a stretch of four panels in the first cache level, as in many_row_tiles.inl.
  void set_rows(const BlockLinearArguments& a, int64_t row, int64_t rows) {
    x_ = a.x + row * a.blocks;
    blocks_ = a.blocks;
    rows_ = rows;
    row_groups_ = rows <= kGroupRows ? 1 : ceil_div(rows, int64_t{kTileHeight});
    group_rows_ = ceil_div(rows, row_groups_);
    // With one group, the weights are one long stream, and the rows of a long stretch fit into the
    // buffer.
    const int64_t fitting = kMostRowElements / (row_groups_ * group_rows_) - kRowPadding;
    blocks_at_once_ = max_of(1, fitting / kStretchElements) * kChunkBlocks;
    tiles_.configure(row_groups_ == 1 ? product_shapes(group_rows_) : quad_shapes(group_rows_));
  }

  void dequantize_rows(int64_t begin, int64_t blocks) {
    x_stride_ = blocks * kPanelBlock + kRowPadding;
    for (int64_t r = 0; r < row_groups_ * group_rows_; ++r) {
      BFloat16* to = rows_of_x_ + r * x_stride_;
      if (r >= rows_) {
        __builtin_memset(to, 0, static_cast<size_t>(x_stride_) * sizeof(BFloat16));
        continue;
      }
      const ActivationBlock* block = x_ + r * blocks_ + begin;
      for (int64_t b = 0; b < blocks; ++b, ++block, to += kPanelBlock) {
        Panel::store_activations(to, block->codes, block->scale);
      }
    }
  }

  /// Multiplies blocks [begin, end) of panels p and p + 1 with the only group of rows. The sums
  /// stay in tiles. The last panel may have no partner.
  void multiply_pair(int p, int64_t begin, int64_t end) {
    float* const left = panels_[p].sums;
    float* const right = p + 1 < num_panels_ ? panels_[p + 1].sums : nullptr;
    if (begin == 0) {
      clear_sums();
    } else {
      load_sums(left, right);
    }
    for (int64_t from = begin; from < end; from += kChunkBlocks) {
      const int64_t blocks = min_of(kChunkBlocks, end - from);
      dequantize(p, from, blocks, weights_);
      const BFloat16* x = rows_of_x_ + (from - begin) * kPanelBlock;
      if (group_rows_ > kTileHeight) {
        add_tiles<true>(x, blocks);
      } else {
        add_tiles<false>(x, blocks);
      }
    }
    store_sums(left, right);
  }

  /// Multiplies blocks [begin, end) of panels p to p + 3 with all groups of rows. The last panels
  /// may be fewer.
  void multiply_four(int p, int64_t begin, int64_t end) {
    const int count = min_of(4, num_panels_ - p);
    for (int64_t from = begin; from < end; from += kChunkBlocks) {
      const int64_t blocks = min_of(kChunkBlocks, end - from);
      for (int i = 0; i < count; i += 2) dequantize(p + i, from, blocks, weights_ + i);
      for (int64_t g = 0; g < row_groups_; ++g) {
        const BFloat16* x = rows_of_x_ + g * group_rows_ * x_stride_ + (from - begin) * kPanelBlock;
        if (count <= 2) {
          add_to_sums<2>(p, g, x, blocks, from == 0);
        } else {
          add_to_sums<4>(p, g, x, blocks, from == 0);
        }
      }
    }
  }

  template <int kPanels>
  void add_to_sums(int p, int64_t group, const BFloat16* x, int64_t blocks, bool is_first) {
    const int64_t offset = group * group_rows_ * kGroupSumStride;
    for_numbers<0, kPanels>([&](auto i) REPRISE_LAMBDA_INLINE {
      if (is_first) {
        tiles_.clear<i.value>();
      } else if (p + i.value < num_panels_) {
        tiles_.load<i.value>(panels_[p + i.value].sums + offset, kSumBytes);
      }
    });
    for (int64_t b = 0; b < blocks; ++b) {
      tiles_.load<kQuadRows>(x + b * kPanelBlock,
                             x_stride_ * static_cast<int64_t>(sizeof(BFloat16)));
      for_numbers<0, kPanels>([&](auto i) REPRISE_LAMBDA_INLINE {
        constexpr int kColumns = i.value % 2 == 0 ? kQuadColumns0 : kQuadColumns1;
        tiles_.load<kColumns>(weights_[i.value] + b * kTileWeights, kTileRowBytes);
        tiles_.add_bf16<i.value, kQuadRows, kColumns>();
      });
    }
    for_numbers<0, kPanels>([&](auto i) REPRISE_LAMBDA_INLINE {
      if (p + i.value < num_panels_) {
        tiles_.store<i.value>(panels_[p + i.value].sums + offset, kSumBytes);
      }
    });
  }

  /// Dequantises blocks [from, from + blocks) of panels p and p + 1, if there are two.
  void dequantize(int p,
                  int64_t from,
                  int64_t blocks,
                  BFloat16 (*to)[kChunkBlocks * kTileWeights]) {
    const PanelSlot& left = *panels_[p].slot;
    const PanelSlot& right = *panels_[p + 1 < num_panels_ ? p + 1 : p].slot;
    const uint8_t* const panels[2] = {left.panel + chunk_offset(left.format, from),
                                      right.panel + chunk_offset(right.format, from)};
    if (left.format == right.format) {
      dequantize(left.format, {panels[0], p + 1 < num_panels_ ? panels[1] : nullptr}, blocks, to);
    } else {
      dequantize(left.format, {panels[0], nullptr}, blocks, to);
      dequantize(right.format, {nullptr, panels[1]}, blocks, to);
    }
  }
  void dequantize(PanelFormat format,
                  const uint8_t* const (&panels)[2],
                  int64_t blocks,
                  BFloat16 (*to)[kChunkBlocks * kTileWeights]) {
    with_panel_format(format, [&](auto number) {
      dequantize_panels<static_cast<PanelFormat>(number.value)>(panels, blocks, to);
    });
  }

  template <bool kHasSecond>
  void add_tiles(const BFloat16* x, int64_t blocks) {
    const auto x_bytes = x_stride_ * static_cast<int64_t>(sizeof(BFloat16));
    for (int64_t i = 0; i < blocks; ++i, x += kPanelBlock) {
      tiles_.load<kColumns0>(weights_[0] + i * kTileWeights, kTileRowBytes);
      tiles_.load<kRows0>(x, x_bytes);
      tiles_.add_bf16<kSums00, kRows0, kColumns0>();
      if constexpr (kHasSecond) {
        tiles_.load<kRows1>(x + kTileHeight * x_stride_, x_bytes);
        tiles_.add_bf16<kSums10, kRows1, kColumns0>();
      }
      tiles_.load<kColumns1>(weights_[1] + i * kTileWeights, kTileRowBytes);
      tiles_.add_bf16<kSums01, kRows0, kColumns1>();
      if constexpr (kHasSecond) tiles_.add_bf16<kSums11, kRows1, kColumns1>();
    }
  }

  void clear_sums() {
    tiles_.clear<kSums00>();
    tiles_.clear<kSums01>();
    if (group_rows_ <= kTileHeight) return;
    tiles_.clear<kSums10>();
    tiles_.clear<kSums11>();
  }
  void load_sums(const float* left, const float* right) {
    tiles_.load<kSums00>(left, kSumBytes);
    if (right != nullptr) tiles_.load<kSums01>(right, kSumBytes);
    if (group_rows_ <= kTileHeight) return;
    tiles_.load<kSums10>(left + kTileHeight * kGroupSumStride, kSumBytes);
    if (right != nullptr) tiles_.load<kSums11>(right + kTileHeight * kGroupSumStride, kSumBytes);
  }
  void store_sums(float* left, float* right) const {
    tiles_.store<kSums00>(left, kSumBytes);
    if (right != nullptr) tiles_.store<kSums01>(right, kSumBytes);
    if (group_rows_ <= kTileHeight) return;
    tiles_.store<kSums10>(left + kTileHeight * kGroupSumStride, kSumBytes);
    if (right != nullptr) tiles_.store<kSums11>(right + kTileHeight * kGroupSumStride, kSumBytes);
  }

  float* sums_of(int group, int64_t row) {
    return sums_ + (group * kMostPaddedRows + row) * kGroupSumStride;
  }

  static constexpr auto kSumBytes = kGroupSumStride * static_cast<int64_t>(sizeof(float));

  Tiles tiles_;
  const ActivationBlock* x_;
  int64_t blocks_;  // of the depth
  int64_t rows_;
  int64_t row_groups_;
  int64_t group_rows_;
  int64_t blocks_at_once_;  // number of blocks whose rows are dequantised at once; whole stretches
  int64_t x_stride_;
  int num_panels_;
  PanelSums panels_[kMostGroupedPanels];
  alignas(64) BFloat16 rows_of_x_[kMostRowElements];
  // One stretch of two or four panels. A missing panel is multiplied anyway, but its tiles of sums
  // are not stored.
  alignas(64) BFloat16 weights_[4][kChunkBlocks * kTileWeights] = {};
  alignas(64) float sums_[kMostPanelGroups * kMostPaddedRows * kGroupSumStride];
};

// Computes the products of up to `limit` rows. It must not be inlined: a call touches all pages of
// its frame, which has 700 KB, and calls with few rows must not pay for that.
template <typename SlotsOf, typename StoreRow>
__attribute__((noinline)) void run_bf16_products(const BlockLinearArguments& a,
                                                 int64_t limit,
                                                 device::BlockRange blocks,
                                                 const SlotsOf& slots_of,
                                                 const StoreRow& store_row) {
  const int64_t row_tiles = ceil_div(a.rows, a.rows_per_block);
  Bf16Products products;
  PanelSlots groups[kMostPanelGroups];
  for (int64_t next = blocks.begin; next < blocks.end;) {
    // Whole columns of blocks are joined, the same number each time. Other blocks are multiplied
    // alone.
    const int64_t first = next % row_tiles;
    const int64_t left = blocks.end - next;
    const int64_t columns = first == 0 ? left / row_tiles : 0;
    const int64_t joined =
        columns == 0 ? 1 : ceil_div(columns, ceil_div(columns, int64_t{kMostPanelGroups}));
    const int64_t last = columns == 0 ? min_of(row_tiles, first + left) : row_tiles;
    for (int64_t g = 0; g < joined; ++g) {
      const int64_t panel = (next / row_tiles + g) * a.panels_per_block;
      groups[g] = slots_of(panel, min_of(a.panels_per_block, a.panels - panel));
    }
    for (int64_t tile = first; tile < last; ++tile) {
      const int64_t row = tile * a.rows_per_block;
      const int64_t rows = min_of(a.rows_per_block, limit - row);
      if (rows > 0) products.run(a, row, rows, groups, static_cast<int>(joined), store_row);
    }
    next += columns == 0 ? last - first : joined * row_tiles;
  }
}

// Does the same as for_panel_products(), for kernels without batch invariance.
template <typename SlotsOf, typename StoreRow>
inline void for_bf16_products(const BlockLinearArguments& a,
                              device::BlockRange blocks,
                              const SlotsOf& slots_of,
                              const StoreRow& store_row) {
  const int64_t limit = a.num_rows == nullptr ? a.rows : min_of(a.rows, *a.num_rows);
  if (limit < kLeastRowsInBf16) return for_panel_products(a, blocks, slots_of, store_row);
  run_bf16_products(a, limit, blocks, slots_of, store_row);
}

#endif
