template <typename T>
void run_swigluoai_and_mul(const void* args, device::BlockRange blocks) noexcept {
  const auto& a = *static_cast<const SwigluoaiAndMulArguments*>(args);
  const Vec one = broadcast(1.0F);
  const Vec most = broadcast(a.limit);
  const Vec least = broadcast(-a.limit);
  const Vec minus_alpha = broadcast(-kSwigluoaiAlpha);
  for (uint32_t block = blocks.begin; block < blocks.end; ++block) {
    const RowTile tile = row_tile(a.tiles, block);
    for (int64_t row = tile.row_begin; row < tile.row_end; ++row) {
      const T* x = static_cast<const T*>(a.x) + row_offset(a.x_layout, row);
      T* out = static_cast<T*>(a.out) + row * a.tiles.width;
      for (int64_t i = tile.column_begin; i < tile.column_end; i += kLanes) {
        const int count = lanes_at(i, tile.column_end);
        const Vec gate = min(load_some(x + i, count), most);
        const Vec up = max(min(load_some(x + a.tiles.width + i, count), most), least);
        const Vec gated = div(gate, add(one, exp(mul(gate, minus_alpha))));
        store_some(out + i, mul(add(up, one), gated), count);
      }
    }
  }
}
