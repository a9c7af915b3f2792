template <typename T>
void run_group_rms_norm(const void* args, device::BlockRange blocks) noexcept {
  const auto& a = *static_cast<const GroupRmsNormArguments*>(args);
  const int64_t width = a.tiles.width;
  for (uint32_t block = blocks.begin; block < blocks.end; ++block) {
    const RowTile tile = row_tile(a.tiles, block);
    for (int64_t row = tile.row_begin; row < tile.row_end; ++row) {
      for (int64_t i = 0; i < width; i += a.group_size) {
        rms_norm_row(static_cast<const T*>(a.x) + row_offset(a.x_layout, row) + i,
                     static_cast<const T*>(a.weight) + i,
                     static_cast<T*>(a.out) + row * width + i,
                     a.group_size,
                     a.epsilon);
      }
    }
  }
}
