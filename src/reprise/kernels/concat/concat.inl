template <typename T>
void run_concat(const void* args, device::BlockRange blocks) noexcept {
  const auto& a = *static_cast<const ConcatArguments*>(args);
  const int64_t b_width = a.tiles.width - a.a_width;
  for (uint32_t block = blocks.begin; block < blocks.end; ++block) {
    const RowTile tile = row_tile(a.tiles, block);
    for (int64_t row = tile.row_begin; row < tile.row_end; ++row) {
      T* out = static_cast<T*>(a.out) + row * a.tiles.width;
      __builtin_memcpy(out,
                       static_cast<const T*>(a.a) + row_offset(a.a_layout, row),
                       static_cast<size_t>(a.a_width) * sizeof(T));
      __builtin_memcpy(out + a.a_width,
                       static_cast<const T*>(a.b) + row_offset(a.b_layout, row),
                       static_cast<size_t>(b_width) * sizeof(T));
    }
  }
}
