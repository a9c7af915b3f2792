// Products of bfloat16 rows with a weight in panels (tensor/column_panels.h). Each lane adds the
// products of one output, pair after pair. So the order of a sum depends only on the depth, and a
// row has the same bits in any batch.
//
// Without instructions for pairs, two elements of a row cost two instructions each time they are
// separated. Several rows are therefore widened to float32 before: a broadcast of one number from
// memory costs none.

// The distance in lines at which a single row prefetches weights: with it, decoding reads at the
// full speed of the memory.
constexpr int64_t kPairsAhead = 64;
// The vectors of outputs with which a single row is multiplied at once, so that their sums need not
// wait for each other.
constexpr int kSingleRowVecs = 4;

/// sums[r][v] += the products of row r with the outputs of `weight[v]`, which begins with the first
/// pairs of these outputs; the next pairs follow at the distance of a panel's line. In the first
/// stretch, the sums begin at 0. X is BFloat16, or float: then x[r] begins with the first pair of
/// the stretch, and not of the depth.
template <int kRows, int kVecs, bool kAsks, typename X>
inline void pair_tile(const X* const* x,
                      const BFloat16* const* weight,
                      const PanelStretch& stretch,
                      const LinesAhead& ahead,
                      float* sums_at,
                      int64_t stride) {
  using D = Dot<BFloat16>;
  constexpr int64_t kLine = 2 * kPanelColumns;
  Vec sums[kRows][kVecs];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < kVecs; ++v) {
      sums[r][v] = stretch.begin == 0 ? zero() : load(sums_at + r * stride + v * kLanes);
    }
  }
  for (int64_t pair = stretch.begin; pair < stretch.end; ++pair) {
    if constexpr (kAsks) ask_for_line(ahead, pair - stretch.begin);
    typename D::Packet weights[kVecs];
#pragma GCC unroll 8
    for (int v = 0; v < kVecs; ++v) {
      weights[v] = D::load_packet(weight[v] + pair * kLine);
      if constexpr (kRows == 1 && !kAsks) {
        __builtin_prefetch(weight[v] + (pair + kPairsAhead) * kLine, 0, 2);
      }
    }
    if constexpr (__is_same(X, float)) {
      const int64_t at = 2 * (pair - stretch.begin);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const Vec even = broadcast(x[r][at]);
#pragma GCC unroll 8
        for (int v = 0; v < kVecs; ++v) sums[r][v] = fma(even, weights[v].even, sums[r][v]);
      }
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const Vec odd = broadcast(x[r][at + 1]);
#pragma GCC unroll 8
        for (int v = 0; v < kVecs; ++v) sums[r][v] = fma(odd, weights[v].odd, sums[r][v]);
      }
    } else {
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const typename D::Packet two = D::broadcast_pair(x[r] + 2 * pair);
#pragma GCC unroll 8
        for (int v = 0; v < kVecs; ++v) sums[r][v] = D::accumulate(two, weights[v], sums[r][v]);
      }
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < kVecs; ++v) store(sums_at + r * stride + v * kLanes, sums[r][v]);
  }
}

/// The sums of `rows` rows with the outputs of `columns`: sums is [rows, columns.size]. \pre rows
/// is at most kPairTileRows, columns are whole panels
template <bool kAsks, typename X, typename Columns>
inline void pair_products(const X* const* x,
                          int64_t rows,
                          const Columns& columns,
                          const PanelStretch& stretch,
                          float* sums) {
  for_numbers<1, kPairTileRows + 1>([&](auto count) REPRISE_LAMBDA_INLINE {
    if (rows != count.value) return;
    constexpr int kVecs = count.value == 1 ? kSingleRowVecs : kPairTileVecs;
    const BFloat16* starts[kVecs];
    int64_t column = 0;
    while (column + kVecs * kLanes <= columns.size) {
      for (int v = 0; v < kVecs; ++v) starts[v] = columns.weight[column + v * kLanes];
      const LinesAhead ahead = stretch.ahead(columns.weight, column, kVecs * kLanes);
      pair_tile<count.value, kVecs, kAsks>(x, starts, stretch, ahead, sums + column, columns.size);
      column += kVecs * kLanes;
    }
    for (; column < columns.size; column += kLanes) {
      const LinesAhead ahead = stretch.ahead(columns.weight, column, kLanes);
      pair_tile<count.value, 1, kAsks>(
          x, columns.weight + column, stretch, ahead, sums + column, columns.size);
    }
  });
}
