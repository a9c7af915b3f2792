// The sum is rounded to T before the norm, because separate kernels for add and rms_norm would
// store and read it as T.
template <typename T>
void run_fused_add_rms_norm(const void* args, device::BlockRange blocks) noexcept {
  const auto& a = *static_cast<const FusedAddRmsNormArguments*>(args);
  const int64_t width = a.tiles.width;
  for (uint32_t block = blocks.begin; block < blocks.end; ++block) {
    const RowTile tile = row_tile(a.tiles, block);
    for (int64_t row = tile.row_begin; row < tile.row_end; ++row) {
      T* sum = static_cast<T*>(a.sum) + row * width;
      add_row(static_cast<const T*>(a.residual) + row_offset(a.residual_layout, row),
              static_cast<const T*>(a.x) + row_offset(a.x_layout, row),
              sum,
              width);
      rms_norm_row(sum,
                   static_cast<const T*>(a.weight),
                   static_cast<T*>(a.normed) + row * width,
                   width,
                   a.epsilon);
    }
  }
}
