template <typename T>
inline void add_row(const T* a, const T* b, T* out, int64_t width) {
  int64_t i = 0;
  for (; i + kLanes <= width; i += kLanes) store(out + i, add(load(a + i), load(b + i)));
  if (i < width) {
    const int rest = static_cast<int>(width - i);
    store_first(out + i, add(load_first(a + i, rest), load_first(b + i, rest)), rest);
  }
}

template <typename T>
void run_add(const void* args, device::BlockRange blocks) noexcept {
  const auto& arguments = *static_cast<const AddArguments*>(args);
  for (uint32_t block = blocks.begin; block < blocks.end; ++block) {
    const RowTile tile = row_tile(arguments.tiles, block);
    for (int64_t row = tile.row_begin; row < tile.row_end; ++row) {
      const T* a = static_cast<const T*>(arguments.a) + row_offset(arguments.a_layout, row);
      const T* b = static_cast<const T*>(arguments.b) + row_offset(arguments.b_layout, row);
      T* out = static_cast<T*>(arguments.out) + row * arguments.tiles.width;
      add_row(a + tile.column_begin,
              b + tile.column_begin,
              out + tile.column_begin,
              tile.column_end - tile.column_begin);
    }
  }
}
