template <typename T>
inline void gemma_rms_norm_row(const T* x, const T* weight, T* out, int64_t width, float epsilon) {
  const Vec scale = broadcast(rms_norm_scale(x, width, epsilon));
  const Vec one = broadcast(1.0F);
  for (int64_t i = 0; i < width; i += kLanes) {
    const int count = lanes_at(i, width);
    const Vec scaled = mul(load_some(x + i, count), scale);
    store_some(out + i, mul(scaled, add(one, load_some(weight + i, count))), count);
  }
}

template <typename T>
void run_gemma_rms_norm(const void* args, device::BlockRange blocks) noexcept {
  const auto& a = *static_cast<const RmsNormArguments*>(args);
  const int64_t width = a.tiles.width;
  for (uint32_t block = blocks.begin; block < blocks.end; ++block) {
    const RowTile tile = row_tile(a.tiles, block);
    for (int64_t row = tile.row_begin; row < tile.row_end; ++row) {
      gemma_rms_norm_row(static_cast<const T*>(a.x) + row_offset(a.x_layout, row),
                         static_cast<const T*>(a.weight),
                         static_cast<T*>(a.out) + row * width,
                         width,
                         a.epsilon);
    }
  }
}
