inline Vec silu(Vec x) { return div(x, add(broadcast(1.0F), exp(sub(zero(), x)))); }

template <typename T>
inline void silu_and_mul_row(const T* gate, const T* up, T* out, int64_t width) {
  int64_t i = 0;
  for (; i + kLanes <= width; i += kLanes) {
    store(out + i, mul(silu(load(gate + i)), load(up + i)));
  }
  if (i < width) {
    const int rest = static_cast<int>(width - i);
    store_first(out + i, mul(silu(load_first(gate + i, rest)), load_first(up + i, rest)), rest);
  }
}

template <typename T>
void run_silu_and_mul(const void* args, device::BlockRange blocks) noexcept {
  const auto& a = *static_cast<const SiluAndMulArguments*>(args);
  for (uint32_t block = blocks.begin; block < blocks.end; ++block) {
    const RowTile tile = row_tile(a.tiles, block);
    for (int64_t row = tile.row_begin; row < tile.row_end; ++row) {
      const T* gate = static_cast<const T*>(a.x) + row_offset(a.x_layout, row);
      const T* up = gate + a.tiles.width;
      T* out = static_cast<T*>(a.out) + row * a.tiles.width;
      silu_and_mul_row(gate + tile.column_begin,
                       up + tile.column_begin,
                       out + tile.column_begin,
                       tile.column_end - tile.column_begin);
    }
  }
}
