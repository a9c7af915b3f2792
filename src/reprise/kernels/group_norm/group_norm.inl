// Calls norm(x, weight, out) for each part of each row.
template <typename T, typename Norm>
inline void group_norm(const GroupNormArguments& a, device::BlockRange blocks, const Norm& norm) {
  const int64_t width = a.tiles.width;
  for (uint32_t block = blocks.begin; block < blocks.end; ++block) {
    const RowTile tile = row_tile(a.tiles, block);
    for (int64_t row = tile.row_begin; row < tile.row_end; ++row) {
      for (int64_t i = 0; i < width; i += a.group_size) {
        norm(static_cast<const T*>(a.x) + row_offset(a.x_layout, row) + i,
             static_cast<const T*>(a.weight) + i,
             static_cast<T*>(a.out) + row * width + i);
      }
    }
  }
}

template <typename T>
void run_group_norm(const void* args, device::BlockRange blocks) noexcept {
  const auto& a = *static_cast<const GroupNormArguments*>(args);
  if (a.function == OpFunction::rms_norm) {
    group_norm<T>(a, blocks, [&](const T* x, const T* weight, T* out) {
      rms_norm_row(x, weight, out, a.group_size, a.epsilon);
    });
  } else {
    group_norm<T>(a, blocks, [&](const T* x, const T* weight, T* out) {
      layer_norm_row<T>(x, weight, nullptr, out, a.group_size, a.epsilon);
    });
  }
}
