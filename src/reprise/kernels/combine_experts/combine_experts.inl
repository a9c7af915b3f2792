template <typename T>
void run_combine_experts(const void* args, device::BlockRange blocks) noexcept {
  const auto& a = *static_cast<const CombineExpertsArguments*>(args);
  for (uint32_t block = blocks.begin; block < blocks.end; ++block) {
    const RowTile tile = row_tile(a.tiles, block);
    for (int64_t row = tile.row_begin; row < tile.row_end; ++row) {
      const T* x = static_cast<const T*>(a.x) + row * a.top_k * a.x_stride;
      const float* weights = a.weights + row * a.top_k;
      T* out = static_cast<T*>(a.out) + row * a.tiles.width;
      for (int64_t i = tile.column_begin; i < tile.column_end; i += kLanes) {
        const int count = lanes_at(i, tile.column_end);
        Vec total = zero();
        for (int64_t k = 0; k < a.top_k; ++k) {
          total = fma(broadcast(weights[k]), load_some(x + k * a.x_stride + i, count), total);
        }
        store_some(out + i, total, count);
      }
    }
  }
}
