// Adds the products of one block of a panel with kRows rows of x, and moves to the next block.
// Integer sums are exact; float sums go over the blocks in order, whatever the number of rows.
template <int kRows>
struct PanelQ8 {
  static constexpr int64_t kBytes = kPanelColumns * 34;
  static REPRISE_INLINE void multiply(const uint8_t* panel,
                                      const ActivationBlock* const* x,
                                      Panel::Sums* sums) {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) sums[r] = Panel::start(-Panel::kOffsetQ8 * x[r]->sum);
#pragma GCC unroll 8
    for (int g = 0; g < 8; ++g) {
      const Panel::Codes codes = Panel::load(panel + g * 64);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        sums[r] = Panel::add_q8(sums[r], codes, x[r]->codes + 4 * g);
      }
    }
  }
};

template <int kRows>
struct PanelQ4 {
  static constexpr int64_t kBytes = kPanelColumns * 18;
  static REPRISE_INLINE void multiply(const uint8_t* panel,
                                      const ActivationBlock* const* x,
                                      Panel::Sums* sums) {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) sums[r] = Panel::start(-8 * x[r]->sum);
#pragma GCC unroll 4
    for (int g = 0; g < 4; ++g) {
      const Panel::Codes pairs = Panel::load(panel + g * 64);
      const Panel::Codes low = Panel::low_halves(pairs);
      const Panel::Codes high = Panel::high_halves(pairs);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        sums[r] = Panel::add_q4(sums[r], low, x[r]->codes + 4 * g);
        sums[r] = Panel::add_q4(sums[r], high, x[r]->codes + 16 + 4 * g);
      }
    }
  }
};

/// kRows rows of x times one panel: out[r][0..15], rows kPanelColumns apart.
template <template <int> typename Format, int kRows>
inline void panel_tile(const ActivationBlock* x, int64_t blocks, const uint8_t* panel, float* out) {
  constexpr int64_t kBytes = Format<kRows>::kBytes;
  Panel::Floats totals[kRows];
  const ActivationBlock* at[kRows];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    totals[r] = Panel::Floats{};
    at[r] = x + r * blocks;
  }
  for (int64_t b = 0; b < blocks; ++b, panel += kBytes) {
    Panel::Sums sums[kRows];
    Format<kRows>::multiply(panel, at, sums);
    const Panel::Floats scales = Panel::load_scales(panel + kBytes - 2 * kPanelColumns);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      totals[r] = Panel::accumulate(sums[r], scales, at[r]->scale, totals[r]);
      ++at[r];
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) Panel::store(out + r * kPanelColumns, totals[r]);
}

template <template <int> typename Format>
inline void panel_product(
    const ActivationBlock* x, int64_t rows, int64_t blocks, const uint8_t* panel, float* out) {
  int64_t r = 0;
  for (; r + kPanelRows <= rows; r += kPanelRows) {
    panel_tile<Format, kPanelRows>(x + r * blocks, blocks, panel, out + r * kPanelColumns);
  }
  for (; r < rows; ++r) {
    panel_tile<Format, 1>(x + r * blocks, blocks, panel, out + r * kPanelColumns);
  }
}

template <typename Out>
inline void store_panel(
    const BlockLinearArguments& a, int64_t row, int64_t rows, int64_t column, const float* sums) {
  for (int64_t r = 0; r < rows; ++r) {
    Out* out = static_cast<Out*>(a.out) + (row + r) * a.columns + column;
    for (int64_t c = 0; c < kPanelColumns; ++c) {
      // Adding -0 changes no number, not even another -0.
      const float bias =
          a.bias == nullptr ? -0.0F : to_float(static_cast<const Out*>(a.bias)[column + c]);
      store_element(out + c, sums[r * kPanelColumns + c] + bias);
    }
  }
}

template <typename Out>
void run_block_linear(const void* args, device::BlockRange blocks) noexcept {
  const auto& a = *static_cast<const BlockLinearArguments*>(args);
  const int64_t limit = a.num_rows == nullptr ? a.rows : min_of(a.rows, *a.num_rows);
  const int64_t row_tiles = ceil_div(a.rows, a.rows_per_block);
  const int64_t panel_bytes = a.blocks * kPanelColumns * panel_block_bytes(a.format);
  float sums[kMaxPanelTileRows * kPanelColumns];
  for (uint32_t block = blocks.begin; block < blocks.end; ++block) {
    const int64_t row = block % row_tiles * a.rows_per_block;
    const int64_t rows = max_of(0, min_of(a.rows_per_block, limit - row));
    const int64_t begin = block / row_tiles * a.columns_per_block;
    const int64_t end = min_of(begin + a.columns_per_block, a.columns);
    const ActivationBlock* x = a.x + row * a.blocks;
    for (int64_t column = begin; column < end && rows > 0; column += kPanelColumns) {
      const uint8_t* panel = a.weight + column / kPanelColumns * panel_bytes;
      if (a.format == PanelFormat::q8_0) {
        panel_product<PanelQ8>(x, rows, a.blocks, panel, sums);
      } else {
        panel_product<PanelQ4>(x, rows, a.blocks, panel, sums);
      }
      store_panel<Out>(a, row, rows, column, sums);
    }
  }
}
