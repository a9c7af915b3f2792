template <typename Out>
void run_int8_embedding(const void* args, device::BlockRange blocks) noexcept {
  const auto& a = *static_cast<const Int8EmbeddingArguments*>(args);
  const int64_t width = a.tiles.width;
  for (uint32_t block = blocks.begin; block < blocks.end; ++block) {
    const RowTile tile = row_tile(a.tiles, block);
    for (int64_t row = tile.row_begin; row < tile.row_end; ++row) {
      Out* out = static_cast<Out*>(a.out) + row * width;
      const int64_t id = a.ids[row];
      if (id < 0 || id >= a.table_rows) {
        __builtin_memset(out, 0, static_cast<size_t>(width) * sizeof(Out));
        continue;
      }
      float scale;
      __builtin_memcpy(&scale, a.table + int8_scale_offset(id, width), sizeof scale);
      const int8_t* fours = a.table + int8_panel_offset(id, 0, width);
      for (int64_t i = 0; i < width; i += 4, fours += 4 * kPanelColumns) {
        for (int64_t j = 0; j < 4; ++j) {
          store_element(out + i + j, scale * static_cast<float>(fours[j]));
        }
      }
    }
  }
}
