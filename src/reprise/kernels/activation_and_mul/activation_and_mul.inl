template <typename T, typename Function>
inline void activate_and_mul(const SiluAndMulArguments& a,
                             device::BlockRange blocks,
                             const Function& function) {
  for (uint32_t block = blocks.begin; block < blocks.end; ++block) {
    const RowTile tile = row_tile(a.tiles, block);
    for (int64_t row = tile.row_begin; row < tile.row_end; ++row) {
      const T* gate = static_cast<const T*>(a.x) + row_offset(a.x_layout, row);
      const T* up = gate + a.tiles.width;
      T* out = static_cast<T*>(a.out) + row * a.tiles.width;
      for (int64_t i = tile.column_begin; i < tile.column_end; i += kLanes) {
        const int count = lanes_at(i, tile.column_end);
        const Vec activated = function(load_some(gate + i, count));
        store_some(out + i, mul(activated, load_some(up + i, count)), count);
      }
    }
  }
}

template <typename T>
void run_activation_and_mul(const void* args, device::BlockRange blocks) noexcept {
  const auto& a = *static_cast<const SiluAndMulArguments*>(args);
  if (a.function == OpFunction::gelu) return activate_and_mul<T>(a, blocks, GeluFunction{});
  activate_and_mul<T>(a, blocks, GeluTanhFunction{});
}
