// Products of int8 rows with a weight in panels (tensor/int8_panels.h). The sums are exact.

// The weights that a single row asks for ahead, in bytes per panel: decoding is as fast as memory.
constexpr int64_t kFoursBytesAhead = 4096;
// Panels that a single row is multiplied with at once, so that their sums need not wait for each
// other.
constexpr int kSingleRowPanels = 4;

/// out[r][p] = the sums of row r with the outputs of panel p.
template <int kRows, int kPanels>
inline void four_tile(const int8_t* const* x,
                      const int8_t* const* panels,
                      int64_t depth,
                      int32_t* out,
                      int64_t out_stride) {
  constexpr int64_t kLine = 4 * kPanelColumns;
  Panel::Sums sums[kRows][kPanels];
#pragma GCC unroll 8
  for (int p = 0; p < kPanels; ++p) {
    // The sums of the codes lie behind the codes and the scales.
    const Panel::Sums start = Panel::start_bytes(panels[p] + (depth + 4) * kPanelColumns);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) sums[r][p] = start;
  }
  for (int64_t four = 0; four < depth / 4; ++four) {
    Panel::Bytes codes[kPanels];
#pragma GCC unroll 8
    for (int p = 0; p < kPanels; ++p) {
      codes[p] = Panel::load_bytes(panels[p] + four * kLine);
      if constexpr (kRows == 1) {
        __builtin_prefetch(panels[p] + four * kLine + kFoursBytesAhead, 0, 2);
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const Panel::FourBytes bytes = Panel::broadcast_bytes(x[r] + 4 * four);
#pragma GCC unroll 8
      for (int p = 0; p < kPanels; ++p) sums[r][p] = Panel::add_bytes(sums[r][p], codes[p], bytes);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int p = 0; p < kPanels; ++p) {
      Panel::store_sums(out + r * out_stride + p * kPanelColumns, sums[r][p]);
    }
  }
}

/// The sums of `rows` rows with `columns` outputs: out is [rows, columns]. \pre rows is at most
/// kPanelTileRows, columns are whole panels, and weight[c] is where column c begins
inline void four_products(const int8_t* const* x,
                          int64_t rows,
                          const int8_t* const* weight,
                          int64_t columns,
                          int64_t depth,
                          int32_t* out) {
  for_numbers<1, kPanelTileRows + 1>([&](auto count) REPRISE_LAMBDA_INLINE {
    if (rows != count.value) return;
    constexpr int kPanels = count.value == 1 ? kSingleRowPanels : kPanelTileColumns;
    const int8_t* panels[kPanels];
    int64_t column = 0;
    for (; column + kPanels * kPanelColumns <= columns; column += kPanels * kPanelColumns) {
      for (int p = 0; p < kPanels; ++p) panels[p] = weight[column + p * kPanelColumns];
      four_tile<count.value, kPanels>(x, panels, depth, out + column, columns);
    }
    for (; column < columns; column += kPanelColumns) {
      four_tile<count.value, 1>(x, weight + column, depth, out + column, columns);
    }
  });
}
