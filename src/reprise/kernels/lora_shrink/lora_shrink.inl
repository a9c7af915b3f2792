// Some columns of rows that have the same adapter.
template <typename T>
inline void lora_shrink_rows(const LoraShrinkArguments& a,
                             int32_t slot,
                             int64_t row,
                             int64_t rows,
                             int64_t column,
                             int64_t columns) {
  float* out = a.out + row * a.columns + column;
  if (slot < 0) {
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < columns; ++c) out[r * a.columns + c] = 0;
    }
    return;
  }
  const T* x_rows[kTileRows];
  const T* a_rows[kMaxLoraShrinkColumns];
  for (int64_t r = 0; r < rows; ++r)
    x_rows[r] = static_cast<const T*>(a.x) + (row + r) * a.x_stride;
  const T* matrix = static_cast<const T*>(a.a) + (slot * a.columns + column) * a.depth;
  for (int64_t c = 0; c < columns; ++c) a_rows[c] = matrix + c * a.depth;
  dot_products<T>(x_rows, rows, a_rows, columns, a.depth, out, a.columns);
}

template <typename T>
void run_lora_shrink(const void* args, device::BlockRange blocks) noexcept {
  const auto& a = *static_cast<const LoraShrinkArguments*>(args);
  const int64_t column_tiles = ceil_div(a.columns, a.columns_per_block);
  for (uint32_t block = blocks.begin; block < blocks.end; ++block) {
    const int64_t column = block % column_tiles * a.columns_per_block;
    const int64_t columns = min_of(a.columns_per_block, a.columns - column);
    int64_t row = block / column_tiles * a.rows_per_block;
    const int64_t end = min_of(row + a.rows_per_block, a.rows);
    while (row < end) {
      // The bits of a row do not depend on the rows that are multiplied together with it.
      int64_t next = row + 1;
      while (next < end && next - row < kTileRows && a.slots[next] == a.slots[row]) ++next;
      lora_shrink_rows<T>(a, a.slots[row], row, next - row, column, columns);
      row = next;
    }
  }
}
