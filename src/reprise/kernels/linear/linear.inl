// The weight rows of one block, each with its bias. They belong to neighbouring outputs, or to
// several ranges of outputs that an epilogue needs together. Ranges of a weight in panels are whole
// panels.
template <typename T, typename Bias = T>
struct LinearColumns {
  const T* weight[kMaxLinearTileColumns];  // of a weight in panels: where the column's pairs begin
  float bias[kMaxLinearTileColumns];
  int64_t size = 0;

  void append(const LinearArguments& a, int64_t column, int64_t columns) {
    for (int64_t c = column; c < column + columns; ++c, ++size) {
      weight[size] = static_cast<const T*>(a.weight) +
                     (a.is_in_panels ? column_panel_offset(c, 0, a.depth) : c * a.depth);
      // Adding -0 changes no number, not even another -0.
      bias[size] = a.bias == nullptr ? -0.0F : to_float(static_cast<const Bias*>(a.bias)[c]);
    }
  }
};

// The rows and columns of one block. Neighbouring blocks share their weight rows.
struct LinearBlock {
  int64_t row;
  int64_t rows;  // may be 0
  int64_t column;
  int64_t columns;
};

inline LinearBlock linear_block(const LinearArguments& a, uint32_t block) {
  const int64_t limit = a.num_rows == nullptr ? a.rows : min_of(a.rows, *a.num_rows);
  const int64_t row_tiles = ceil_div(a.rows, a.rows_per_block);
  const int64_t column = block / row_tiles * a.columns_per_block;
  const int64_t row = block % row_tiles * a.rows_per_block;
  return {row,
          max_of(0, min_of(a.rows_per_block, limit - row)),
          column,
          min_of(a.columns_per_block, a.columns - column)};
}

// Computes rows [row, row + rows) times the weight rows of `columns` and calls `store_row(r, sums)`
// with the sums of row + r. A few rows of x stay in L1 while the weight rows are read, and the
// weight rows stay in L2 over all rows.
template <typename T, typename Bias, typename StoreRow>
inline void linear_sums(const LinearArguments& a,
                        int64_t row,
                        int64_t rows,
                        const LinearColumns<T, Bias>& columns,
                        const StoreRow& store_row) {
  const T* x_rows[kMaxLinearTileRows];
  typename Dot<T>::Result sums[kTileRows * kMaxLinearTileColumns];
  for (int64_t r = 0; r < rows; ++r)
    x_rows[r] = static_cast<const T*>(a.x) + (row + r) * a.x_stride;
  if constexpr (__is_same(T, BFloat16)) {
    if (a.is_in_panels) {
      float panel_sums[kPairTileRows * kMaxLinearTileColumns];
      for (int64_t r = 0; r < rows; r += kPairTileRows) {
        const int64_t group = min_of(kPairTileRows, rows - r);
        pair_products(x_rows + r, group, columns.weight, columns.size, a.depth, panel_sums);
        for (int64_t g = 0; g < group; ++g) store_row(r + g, panel_sums + g * columns.size);
      }
      return;
    }
  }
  for (int64_t r = 0; r < rows; r += kTileRows) {
    const int64_t group = min_of(kTileRows, rows - r);
    dot_products<T>(x_rows + r, group, columns.weight, columns.size, a.depth, sums, columns.size);
    for (int64_t g = 0; g < group; ++g) store_row(r + g, sums + g * columns.size);
  }
}

/// out = sums + bias, rounded to Out.
template <typename Out>
inline void add_biases(const float* sums, const float* bias, int64_t size, Out* out) {
  for (int64_t c = 0; c < size; c += kLanes) {
    const int count = lanes_at(c, size);
    store_some(out + c, add(load_some(sums + c, count), load_some(bias + c, count)), count);
  }
}

// The same sums plus the biases, rounded to Out.
template <typename T, typename Out>
inline void linear_tile(const LinearArguments& a,
                        int64_t row,
                        int64_t rows,
                        const LinearColumns<T>& columns,
                        Out* out,
                        int64_t out_stride) {
  linear_sums(a, row, rows, columns, [&](int64_t r, const float* sums) {
    add_biases(sums, columns.bias, columns.size, out + r * out_stride);
  });
}

template <typename T, typename Out>
void run_linear(const void* args, device::BlockRange blocks) noexcept {
  const auto& a = *static_cast<const LinearArguments*>(args);
  for (uint32_t block = blocks.begin; block < blocks.end; ++block) {
    const LinearBlock b = linear_block(a, block);
    LinearColumns<T> columns;
    columns.append(a, b.column, b.columns);
    Out* out = static_cast<Out*>(a.out) + b.row * a.columns + b.column;
    linear_tile<T, Out>(a, b.row, b.rows, columns, out, a.columns);
  }
}
