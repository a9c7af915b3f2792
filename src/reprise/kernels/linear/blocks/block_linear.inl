// clang-format off: later files use earlier ones.
#include "reprise/kernels/linear/blocks/panel_formats.inl"
#include "reprise/kernels/linear/blocks/panel_slots.inl"
#include "reprise/kernels/linear/blocks/panel_tile.inl"
#include "reprise/kernels/linear/blocks/tile_products.inl"
// clang-format on

// The number of blocks of a stretch. The stretches of a row have nearly the same length, because
// the tiles of each stretch prefetch the next one.
inline int64_t stretch_blocks(const PanelSlots& slots, int64_t rows, int64_t blocks) {
  int64_t most = kMostStretchBlocks;
  int64_t unit = 1;
  for (int s = 0; s < slots.size; ++s) {
    if (!tiles_read_weight(slots.of[s].format, rows)) most = kChunkBlocks;
    unit = max_of(unit, panel_layout(slots.of[s].format).super_blocks);
  }
  return ceil_div(ceil_div(blocks, ceil_div(blocks, most)), unit) * unit;
}

// The number of cache lines that the first tiles prefetch per block: the lines of the next stretch
// of a panel, while the tiles multiply the current stretch.
inline int lines_ahead(int64_t rows, PanelFormat format, int64_t blocks) {
  const int64_t tiles = min_of(ceil_div(rows, kPanelTileRows), kPrefetchTiles);
  const int64_t lines = ceil_div(chunk_offset(format, blocks), 64);
  return static_cast<int>(ceil_div(lines, tiles * blocks));
}

// Several rows times the panels of all slots. `stretch_of(begin, count)`: see RowStretch.
template <typename StretchOf>
inline void multiply_rows(const StretchOf& stretch_of,
                          int64_t rows,
                          int64_t blocks,
                          const PanelSlots& slots,
                          float* sums) {
#ifdef REPRISE_ISA_HAS_TILES
  if (tiles_are_faster(slots, rows)) {
    return multiply_by_tiles(stretch_of, rows, blocks, slots, sums);
  }
#endif
  UnpackedPanel unpacked[kPanelTileColumns];
  const int64_t at_once = stretch_blocks(slots, rows, blocks);
  for (int64_t begin = 0; begin < blocks; begin += at_once) {
    const int64_t count = min_of(at_once, blocks - begin);
    const RowStretch stretch = stretch_of(begin, count);
    int s = 0;
    while (s < slots.size) {
      const TileKind kind = tile_kind(slots.of[s].format, rows);
      TileRows tile = {.x = stretch.x,
                       .x_blocks = stretch.x_blocks,
                       .blocks = count,
                       .is_first = begin == 0,
                       .totals = {},
                       .stride = kPanelSumStride,
                       .ahead = {},
                       .lines_ahead = lines_ahead(rows, slots.of[s].format, at_once)};
      const UnpackedPanel* panels[kPanelTileColumns];
      int columns = 0;
      for (; columns < kPanelTileColumns; ++columns) {
        const bool fits =
            s + columns < slots.size && tile_kind(slots.of[s + columns].format, rows) == kind;
        // A panel without a partner is multiplied twice; the second result has no slot and is
        // dropped.
        const PanelSlot& slot = slots.of[fits ? s + columns : s];
        panels[columns] = &unpacked[fits ? columns : 0];
        if (fits) {
          unpack_panel<false>(slot.format, slot.panel, begin, count, rows, unpacked[columns]);
        }
        tile.totals[columns] = sums + (fits ? s + columns : kMaxPanelSlots) * kPanelColumns;
        tile.ahead[columns] = panel_ahead(slots, fits ? s + columns : s, begin + at_once, blocks);
        if (!fits) break;
      }
      panel_tiles(panels, kind, rows, tile);
      s += columns;
    }
  }
}

// One row times the panels of all slots.
inline void multiply_row(const ActivationBlock* x,
                         int64_t blocks,
                         const PanelSlots& slots,
                         float* sums) {
  for (int s = 0; s < slots.size; ++s) {
    with_panel_format(slots.of[s].format, [&](auto format) {
      panel_row<static_cast<PanelFormat>(format.value)>(
          x, blocks, slots.of[s].panel, sums + s * kPanelColumns);
    });
  }
}

// Computes the sums of rows [row, row + rows) and calls `store_row(r, sums)` with the sums of row
// `row + r`.
template <typename StoreRow>
inline void block_linear_sums(const BlockLinearArguments& a,
                              int64_t row,
                              int64_t rows,
                              const PanelSlots& slots,
                              const StoreRow& store_row) {
  alignas(64) float sums[kMaxPanelTileRows * kPanelSumStride];
  const ActivationBlock* x = a.x + row * a.blocks;
  if (rows == 1) {
    multiply_row(x, a.blocks, slots, sums);
  } else {
    const auto stretch_of = [&](int64_t begin, int64_t) {
      return RowStretch{.x = x + begin, .x_blocks = a.blocks};
    };
    multiply_rows(stretch_of, rows, a.blocks, slots, sums);
  }
  for (int64_t r = 0; r < rows; ++r) store_row(r, sums + r * kPanelSumStride);
}

// The sums of one row and slot plus their biases, rounded. `biases` of all outputs, or nullptr.
template <typename Out>
REPRISE_INLINE void round_sums(const void* biases,
                               const PanelSlot& slot,
                               const float* sums,
                               Out* out) {
  const Out* bias = biases == nullptr ? nullptr : static_cast<const Out*>(biases) + slot.column;
  if (slot.columns == kPanelColumns) {
#pragma GCC unroll 4
    for (int64_t c = 0; c < kPanelColumns; c += kLanes) {
      const Vec v = load(sums + c);
      store(out + c, bias == nullptr ? v : add(v, load(bias + c)));
    }
    return;
  }
  for (int64_t c = 0; c < slot.columns; c += kLanes) {
    const int rest = static_cast<int>(min_of(kLanes, slot.columns - c));
    if (rest == kLanes) {
      const Vec v = load(sums + c);
      store(out + c, bias == nullptr ? v : add(v, load(bias + c)));
    } else {
      const Vec v = load_first(sums + c, rest);
      store_first(out + c, bias == nullptr ? v : add(v, load_first(bias + c, rest)), rest);
    }
  }
}

// Calls `run_block(row, rows, panel, panels)` for every block of the grid that has rows.
// Neighbouring blocks share their panels.
template <typename RunBlock>
inline void for_panel_blocks(const BlockLinearArguments& a,
                             device::BlockRange blocks,
                             const RunBlock& run_block) {
  const int64_t limit = a.num_rows == nullptr ? a.rows : min_of(a.rows, *a.num_rows);
  const int64_t row_tiles = ceil_div(a.rows, a.rows_per_block);
  for (uint32_t block = blocks.begin; block < blocks.end; ++block) {
    const int64_t row = block % row_tiles * a.rows_per_block;
    const int64_t rows = min_of(a.rows_per_block, limit - row);
    const int64_t panel = block / row_tiles * a.panels_per_block;
    if (rows > 0) run_block(row, rows, panel, min_of(a.panels_per_block, a.panels - panel));
  }
}

// Calls `store_row(slots, row, sums)` for every row and all panels of the blocks of a grid, where
// `slots_of(panel, panels)` returns the panels of one block.
template <typename SlotsOf, typename StoreRow>
inline void for_panel_products(const BlockLinearArguments& a,
                               device::BlockRange blocks,
                               const SlotsOf& slots_of,
                               const StoreRow& store_row) {
  for_panel_blocks(a, blocks, [&](int64_t row, int64_t rows, int64_t panel, int64_t panels) {
    const PanelSlots slots = slots_of(panel, panels);
    block_linear_sums(a, row, rows, slots, [&](int64_t r, const float* sums) {
      store_row(slots, row + r, sums);
    });
  });
}

#include "reprise/kernels/linear/blocks/bf16_products.inl"

// The products of all these kernels. RowBits: whether a row has the same bits in any batch.
enum class RowBits : uint8_t { same_in_any_batch, depend_on_batch };

template <RowBits kBits, typename SlotsOf, typename StoreRow>
inline void for_products(const BlockLinearArguments& a,
                         device::BlockRange blocks,
                         const SlotsOf& slots_of,
                         const StoreRow& store_row) {
#ifdef REPRISE_ISA_HAS_TILES
  if constexpr (kBits == RowBits::depend_on_batch) {
    return for_bf16_products(a, blocks, slots_of, store_row);
  }
#endif
  for_panel_products(a, blocks, slots_of, store_row);
}

// Panels [panel, panel + panels) of a weight.
inline PanelSlots neighbouring_panels(const uint8_t* weight,
                                      const PanelHeader& header,
                                      int64_t panel,
                                      int64_t panels) {
  PanelSlots slots;
  for (int64_t p = panel; p < panel + panels; ++p) append_panel(slots, weight, header, p);
  return slots;
}
