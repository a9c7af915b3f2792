// The mean of rows of x for each request: all of its rows, or only the first or the last one. Rows
// of padding become zeros.
template <typename T>
void run_pool_rows(const void* args, device::BlockRange blocks) noexcept {
  const auto& a = *static_cast<const PoolRowsArguments*>(args);
  for (uint32_t block = blocks.begin; block < blocks.end; ++block) {
    const RowTile tile = row_tile(a.tiles, block);
    for (int64_t row = tile.row_begin; row < tile.row_end; ++row) {
      const int64_t first = row == 0 ? 0 : a.ends[row - 1] + 1;
      const int64_t last = row < *a.num_rows ? a.ends[row] : -1;
      const bool is_inside = first >= 0 && first <= last && last < a.x_rows;
      const int64_t begin = a.function == OpFunction::last ? last : first;
      const int64_t end = is_inside ? (a.function == OpFunction::cls ? first : last) + 1 : begin;
      const Vec divisor = broadcast(begin < end ? static_cast<float>(end - begin) : 1.0F);
      for (int64_t i = tile.column_begin; i < tile.column_end; i += kLanes) {
        const int lanes = lanes_at(i, tile.column_end);
        Vec total = zero();
        for (int64_t from = begin; from < end; ++from) {
          total = add(total, load_some(static_cast<const T*>(a.x) + from * a.x_stride + i, lanes));
        }
        store_some(a.out + row * a.tiles.width + i, div(total, divisor), lanes);
      }
    }
  }
}
