// One block: a tile of rows_per_block x columns_per_block outputs. Four rows of x stay in L1 while
// the tile's weight rows pass; the weight tile stays in L2 over the rows.
template <typename T, typename Out>
inline void linear_tile(
    const LinearArguments& a, int64_t row, int64_t rows, int64_t column, int64_t columns) {
  const T* x_rows[kMaxLinearTileRows];
  const T* weight_rows[kMaxLinearTileColumns];
  float sums[kTileRows * kMaxLinearTileColumns];
  for (int64_t r = 0; r < rows; ++r)
    x_rows[r] = static_cast<const T*>(a.x) + (row + r) * a.x_stride;
  for (int64_t c = 0; c < columns; ++c) {
    weight_rows[c] = static_cast<const T*>(a.weight) + (column + c) * a.depth;
  }
  const T* bias = a.bias == nullptr ? nullptr : static_cast<const T*>(a.bias) + column;
  for (int64_t r = 0; r < rows; r += kTileRows) {
    const int64_t group = min_of(kTileRows, rows - r);
    dot_products<T>(x_rows + r, group, weight_rows, columns, a.depth, sums, columns);
    for (int64_t g = 0; g < group; ++g) {
      Out* out = static_cast<Out*>(a.out) + (row + r + g) * a.columns + column;
      const float* from = sums + g * columns;
      for (int64_t c = 0; c < columns; ++c) {
        store_element(out + c, bias == nullptr ? from[c] : from[c] + to_float(bias[c]));
      }
    }
  }
}

template <typename T, typename Out>
void run_linear(const void* args, device::BlockRange blocks) noexcept {
  const auto& a = *static_cast<const LinearArguments*>(args);
  const int64_t limit = a.num_rows == nullptr ? a.rows : min_of(a.rows, *a.num_rows);
  const int64_t row_tiles = ceil_div(a.rows, a.rows_per_block);
  for (uint32_t block = blocks.begin; block < blocks.end; ++block) {
    // Neighbouring blocks share their weight tile.
    const int64_t column = block / row_tiles * a.columns_per_block;
    const int64_t row = block % row_tiles * a.rows_per_block;
    const int64_t rows = min_of(a.rows_per_block, limit - row);
    if (rows <= 0) continue;
    linear_tile<T, Out>(a, row, rows, column, min_of(a.columns_per_block, a.columns - column));
  }
}
