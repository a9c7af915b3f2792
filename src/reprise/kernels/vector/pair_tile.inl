// Products of bfloat16 rows with a weight in panels (tensor/column_panels.h). Each lane adds the
// products of one output, pair after pair. So the order of a sum depends on nothing but the depth,
// and a row has the same bits in any batch.

// The weights that a single row asks for ahead, in bytes per vector: decoding is as fast as memory.
constexpr int64_t kPairsAhead = 64;

/// out[r][v] = the sums of row r with the outputs of `weight[v]`, which begins with their first
/// pairs; those of the next pairs are a panel's line further.
template <int kRows, int kVecs>
inline void pair_tile(const BFloat16* const* x,
                      const BFloat16* const* weight,
                      int64_t depth,
                      float* out,
                      int64_t out_stride) {
  using D = Dot<BFloat16>;
  constexpr int64_t kLine = 2 * kPanelColumns;
  Vec sums[kRows][kVecs];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < kVecs; ++v) sums[r][v] = zero();
  }
  for (int64_t pair = 0; pair < depth / 2; ++pair) {
    typename D::Packet weights[kVecs];
#pragma GCC unroll 8
    for (int v = 0; v < kVecs; ++v) {
      weights[v] = D::load_packet(weight[v] + pair * kLine);
      if constexpr (kRows == 1) {
        __builtin_prefetch(weight[v] + (pair + kPairsAhead) * kLine, 0, 2);
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const typename D::Packet two = D::broadcast_pair(x[r] + 2 * pair);
#pragma GCC unroll 8
      for (int v = 0; v < kVecs; ++v) sums[r][v] = D::accumulate(two, weights[v], sums[r][v]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int v = 0; v < kVecs; ++v) store(out + r * out_stride + v * kLanes, sums[r][v]);
  }
}

/// The sums of `rows` rows with `columns` outputs: out is [rows, columns]. \pre rows is at most
/// kPairTileRows, columns are whole panels, and weight[c] is where the pairs of column c begin
inline void pair_products(const BFloat16* const* x,
                          int64_t rows,
                          const BFloat16* const* weight,
                          int64_t columns,
                          int64_t depth,
                          float* out) {
  for_numbers<1, kPairTileRows + 1>([&](auto count) REPRISE_LAMBDA_INLINE {
    if (rows != count.value) return;
    const BFloat16* starts[kPairTileVecs];
    int64_t column = 0;
    while (column + kPairTileVecs * kLanes <= columns) {
      for (int v = 0; v < kPairTileVecs; ++v) starts[v] = weight[column + v * kLanes];
      pair_tile<count.value, kPairTileVecs>(x, starts, depth, out + column, columns);
      column += kPairTileVecs * kLanes;
    }
    for (; column < columns; column += kLanes) {
      pair_tile<count.value, 1>(x, weight + column, depth, out + column, columns);
    }
  });
}
