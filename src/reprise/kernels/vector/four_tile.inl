// Products of int8 rows with a weight in panels (tensor/int8_panels.h). The sums are exact.

// The distance in lines at which a single row prefetches weights: with it, decoding reads at the
// full speed of the memory.
constexpr int64_t kFoursAhead = 64;
// Number of panels with which a single row is multiplied at once, so that their sums need not wait
// for each other.
constexpr int kSingleRowPanels = 4;

/// Four elements of a row, for every column: from the row, or from its widened stretch.
template <typename X, typename P = Panel>
REPRISE_INLINE P::FourBytes broadcast_four_of(const X* x, int64_t four, int64_t first) {
  if constexpr (__is_same(X, int8_t)) {
    return P::broadcast_bytes(x + 4 * four);
  } else {
    return P::broadcast_words(x + 4 * (four - first));
  }
}

/// sums[r][p] += the products of row r with the outputs of panel p. In the first stretch, the sums
/// begin with the start values of the instruction set. X is int8_t, or a wider type: then x[r]
/// begins with the first elements of the stretch, and not of the depth.
template <int kRows, int kPanels, bool kAsks, typename X>
inline void four_tile(const X* const* x,
                      const int8_t* const* panels,
                      int64_t depth,
                      const PanelStretch& stretch,
                      const LinesAhead& ahead,
                      int32_t* sums_at,
                      int64_t stride) {
  constexpr int64_t kLine = 4 * kPanelColumns;
  Panel::Sums sums[kRows][kPanels];
#pragma GCC unroll 8
  for (int p = 0; p < kPanels; ++p) {
    // The sums of the codes follow the codes and the scales.
    const Panel::Sums start = Panel::start_bytes(panels[p] + (depth + 4) * kPanelColumns);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      sums[r][p] =
          stretch.begin == 0 ? start : Panel::load_sums(sums_at + r * stride + p * kPanelColumns);
    }
  }
  for (int64_t four = stretch.begin; four < stretch.end; ++four) {
    if constexpr (kAsks) ask_for_line(ahead, four - stretch.begin);
    Panel::Bytes codes[kPanels];
#pragma GCC unroll 8
    for (int p = 0; p < kPanels; ++p) {
      codes[p] = Panel::load_bytes(panels[p] + four * kLine);
      if constexpr (kRows == 1 && !kAsks) {
        __builtin_prefetch(panels[p] + (four + kFoursAhead) * kLine, 0, 2);
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const Panel::FourBytes bytes = broadcast_four_of(x[r], four, stretch.begin);
#pragma GCC unroll 8
      for (int p = 0; p < kPanels; ++p) sums[r][p] = Panel::add_bytes(sums[r][p], codes[p], bytes);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int p = 0; p < kPanels; ++p) {
      Panel::store_sums(sums_at + r * stride + p * kPanelColumns, sums[r][p]);
    }
  }
}

/// The sums of `rows` rows with the outputs of `columns`: sums is [rows, columns.size]. \pre rows
/// is at most kPanelTileRows, columns are whole panels
template <bool kAsks, typename X, typename Columns>
inline void four_products(const X* const* x,
                          int64_t rows,
                          const Columns& columns,
                          int64_t depth,
                          const PanelStretch& stretch,
                          int32_t* sums) {
  for_numbers<1, kPanelTileRows + 1>([&](auto count) REPRISE_LAMBDA_INLINE {
    if (rows != count.value) return;
    constexpr int kPanels = count.value == 1 ? kSingleRowPanels : kPanelTileColumns;
    const int8_t* panels[kPanels];
    int64_t column = 0;
    for (; column + kPanels * kPanelColumns <= columns.size; column += kPanels * kPanelColumns) {
      for (int p = 0; p < kPanels; ++p) panels[p] = columns.weight[column + p * kPanelColumns];
      const LinesAhead ahead = stretch.ahead(columns.weight, column, kPanels * kPanelColumns);
      four_tile<count.value, kPanels, kAsks>(
          x, panels, depth, stretch, ahead, sums + column, columns.size);
    }
    for (; column < columns.size; column += kPanelColumns) {
      const LinesAhead ahead = stretch.ahead(columns.weight, column, kPanelColumns);
      four_tile<count.value, 1, kAsks>(
          x, columns.weight + column, depth, stretch, ahead, sums + column, columns.size);
    }
  });
}
