// A range of rows of x.
struct PooledRows {
  int64_t begin;
  int64_t end;
};

// Calls `pooled_rows(first, last)` for the first and last row of each request, and writes the mean
// of the rows that it returns. Rows of padding become zeros.
template <typename T, typename Rows>
inline void pool_rows(const void* args, device::BlockRange blocks, const Rows& pooled_rows) {
  const auto& a = *static_cast<const PoolRowsArguments*>(args);
  for (uint32_t block = blocks.begin; block < blocks.end; ++block) {
    const RowTile tile = row_tile(a.tiles, block);
    for (int64_t row = tile.row_begin; row < tile.row_end; ++row) {
      const int64_t first = row == 0 ? 0 : a.ends[row - 1] + 1;
      const int64_t last = row < *a.num_rows ? a.ends[row] : -1;
      const bool is_inside = first >= 0 && first <= last && last < a.x_rows;
      const PooledRows rows = is_inside ? pooled_rows(first, last) : PooledRows{0, 0};
      const auto count = static_cast<float>(rows.end - rows.begin);
      const Vec divisor = broadcast(count > 0 ? count : 1.0F);
      for (int64_t i = tile.column_begin; i < tile.column_end; i += kLanes) {
        const int lanes = lanes_at(i, tile.column_end);
        Vec total = zero();
        for (int64_t from = rows.begin; from < rows.end; ++from) {
          total = add(total, load_some(static_cast<const T*>(a.x) + from * a.x_stride + i, lanes));
        }
        store_some(a.out + row * a.tiles.width + i, div(total, divisor), lanes);
      }
    }
  }
}

template <typename T>
void run_pool_last(const void* args, device::BlockRange blocks) noexcept {
  pool_rows<T>(args, blocks, [](int64_t, int64_t last) { return PooledRows{last, last + 1}; });
}
template <typename T>
void run_pool_cls(const void* args, device::BlockRange blocks) noexcept {
  pool_rows<T>(args, blocks, [](int64_t first, int64_t) { return PooledRows{first, first + 1}; });
}
template <typename T>
void run_pool_mean(const void* args, device::BlockRange blocks) noexcept {
  pool_rows<T>(
      args, blocks, [](int64_t first, int64_t last) { return PooledRows{first, last + 1}; });
}
