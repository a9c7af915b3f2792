inline void run_panel_embedding(const void* args, device::BlockRange blocks) noexcept {
  const auto& a = *static_cast<const PanelEmbeddingArguments*>(args);
  const auto* table = static_cast<const BFloat16*>(a.table);
  for (uint32_t block = blocks.begin; block < blocks.end; ++block) {
    const RowTile tile = row_tile(a.tiles, block);
    for (int64_t row = tile.row_begin; row < tile.row_end; ++row) {
      const int64_t id = a.ids[row];
      BFloat16* out = static_cast<BFloat16*>(a.out) + row * a.tiles.width;
      if (id < 0 || id >= a.table_rows) {
        __builtin_memset(out, 0, static_cast<size_t>(a.tiles.width) * sizeof(BFloat16));
        continue;
      }
      const BFloat16* from = table + column_panel_offset(id, 0, a.tiles.width);
      for (int64_t i = 0; i < a.tiles.width; i += 2, from += 2 * kPanelColumns) {
        __builtin_memcpy(out + i, from, 2 * sizeof(BFloat16));
      }
    }
  }
}
