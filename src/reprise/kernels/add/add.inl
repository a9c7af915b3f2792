template <typename T>
void run_add(const void* args, device::BlockRange blocks) noexcept {
  const auto& arguments = *static_cast<const AddArguments*>(args);
  for (uint32_t block = blocks.begin; block < blocks.end; ++block) {
    const RowTile tile = row_tile(arguments.tiles, block);
    for (int64_t row = tile.row_begin; row < tile.row_end; ++row) {
      const T* a = static_cast<const T*>(arguments.a) + row_offset(arguments.a_layout, row);
      const T* b = static_cast<const T*>(arguments.b) + row_offset(arguments.b_layout, row);
      T* out = static_cast<T*>(arguments.out) + row * arguments.tiles.width;
      int64_t i = tile.column_begin;
      for (; i + kLanes <= tile.column_end; i += kLanes) {
        store(out + i, add(load(a + i), load(b + i)));
      }
      if (i < tile.column_end) {
        const int rest = static_cast<int>(tile.column_end - i);
        store_first(out + i, add(load_first(a + i, rest), load_first(b + i, rest)), rest);
      }
    }
  }
}
