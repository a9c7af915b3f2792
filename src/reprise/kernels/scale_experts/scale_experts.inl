template <typename T>
void run_scale_experts(const void* args, device::BlockRange blocks) noexcept {
  const auto& a = *static_cast<const ScaleExpertsArguments*>(args);
  for (uint32_t block = blocks.begin; block < blocks.end; ++block) {
    const RowTile tile = row_tile(a.tiles, block);
    for (int64_t row = tile.row_begin; row < tile.row_end; ++row) {
      for (int64_t i = tile.column_begin; i < tile.column_end; ++i) {
        const int64_t at = row * a.tiles.width + i;
        const int32_t expert = a.experts[at];
        const float scale = expert < 0 ? 0.0F : to_float(static_cast<const T*>(a.scales)[expert]);
        a.out[at] = a.weights[at] * scale;
      }
    }
  }
}
