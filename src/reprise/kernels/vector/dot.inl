/// out[r][c] = the sum of the lanes of sums[r][c], each added in the order of sum().
template <typename Sum, typename Result, int kRows, int kColumns>
inline void sum_tile(const Sum (&sums)[kRows][kColumns], Result* out, int64_t out_stride) {
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    if constexpr (kColumns % 4 == 0) {
#pragma GCC unroll 8
      for (int c = 0; c < kColumns; c += 4) {
        sum4(sums[r][c], sums[r][c + 1], sums[r][c + 2], sums[r][c + 3], out + r * out_stride + c);
      }
    } else {
#pragma GCC unroll 8
      for (int c = 0; c < kColumns; ++c) out[r * out_stride + c] = sum(sums[r][c]);
    }
  }
}

// A register tile of dot products: out[r][c] = x[r] . w[c] over k elements. The order of each sum
// depends only on k and not on the tile, so a row has the same bits in any batch. Sums of int8 are
// exact, in int32.
template <typename T, int kRows, int kColumns>
inline void dot_tile(const T* const* x,
                     const T* const* w,
                     int64_t k,
                     typename Dot<T>::Result* out,
                     int64_t out_stride) {
  using D = Dot<T>;
  typename D::Sum sums[kRows][kColumns];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
    for (int c = 0; c < kColumns; ++c) sums[r][c] = typename D::Sum{};
  }
  int64_t i = 0;
  for (; i + D::kStep <= k; i += D::kStep) {
    typename D::Packet rows[kRows];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) rows[r] = D::load_packet(x[r] + i);
#pragma GCC unroll 8
    for (int c = 0; c < kColumns; ++c) {
      const typename D::Packet column = D::load_packet(w[c] + i);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) sums[r][c] = D::accumulate(rows[r], column, sums[r][c]);
    }
  }
  if (i < k) {
    const int rest = static_cast<int>(k - i);
    typename D::Packet rows[kRows];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) rows[r] = D::load_packet_first(x[r] + i, rest);
#pragma GCC unroll 8
    for (int c = 0; c < kColumns; ++c) {
      const typename D::Packet column = D::load_packet_first(w[c] + i, rest);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) sums[r][c] = D::accumulate(rows[r], column, sums[r][c]);
    }
  }
  sum_tile(sums, out, out_stride);
}

/// Dot products of any number of columns: in tiles of kColumns, then one by one.
template <typename T, int kRows, int kColumns>
inline void dot_row_tile(const T* const* x,
                         const T* const* w,
                         int64_t columns,
                         int64_t k,
                         typename Dot<T>::Result* out,
                         int64_t out_stride) {
  int64_t c = 0;
  for (; c + kColumns <= columns; c += kColumns) {
    dot_tile<T, kRows, kColumns>(x, w + c, k, out + c, out_stride);
  }
  for (; c < columns; ++c) dot_tile<T, kRows, 1>(x, w + c, k, out + c, out_stride);
}

/// Dot products of any number of rows and columns.
template <typename T>
inline void dot_products(const T* const* x,
                         int64_t rows,
                         const T* const* w,
                         int64_t columns,
                         int64_t k,
                         typename Dot<T>::Result* out,
                         int64_t out_stride) {
  int64_t r = 0;
  for (; r + kTileRows <= rows; r += kTileRows) {
    dot_row_tile<T, kTileRows, kTileColumns>(
        x + r, w, columns, k, out + r * out_stride, out_stride);
  }
  if constexpr (kTileRows > 3) {
    for (; r + 3 <= rows; r += 3) {
      dot_row_tile<T, 3, kTileColumns>(x + r, w, columns, k, out + r * out_stride, out_stride);
    }
  }
  if constexpr (kTileRows > 2) {
    for (; r + 2 <= rows; r += 2) {
      dot_row_tile<T, 2, kTileColumns>(x + r, w, columns, k, out + r * out_stride, out_stride);
    }
  }
  for (; r < rows; ++r) {
    dot_row_tile<T, 1, kSingleRowColumns>(x + r, w, columns, k, out + r * out_stride, out_stride);
  }
}
