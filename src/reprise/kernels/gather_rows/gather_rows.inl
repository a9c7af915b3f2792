inline void run_gather_rows(const void* args, device::BlockRange blocks) noexcept {
  const auto& a = *static_cast<const GatherRowsArguments*>(args);
  for (uint32_t block = blocks.begin; block < blocks.end; ++block) {
    const RowTile tile = row_tile(a.tiles, block);
    const auto bytes = static_cast<size_t>(tile.column_end - tile.column_begin);
    for (int64_t row = tile.row_begin; row < tile.row_end; ++row) {
      const int64_t index = a.indices[row];
      char* out = static_cast<char*>(a.out) + row * a.tiles.width + tile.column_begin;
      if (index >= 0 && index < a.x_rows) {
        const char* from = static_cast<const char*>(a.x) + index * a.x_stride + tile.column_begin;
        __builtin_memcpy(out, from, bytes);
      } else {
        __builtin_memset(out, 0, bytes);
      }
    }
  }
}
