template <typename T>
void run_sigmoid_gate(const void* args, device::BlockRange blocks) noexcept {
  const auto& a = *static_cast<const SigmoidGateArguments*>(args);
  const Vec one = broadcast(1.0F);
  for (uint32_t block = blocks.begin; block < blocks.end; ++block) {
    const RowTile tile = row_tile(a.tiles, block);
    for (int64_t row = tile.row_begin; row < tile.row_end; ++row) {
      const T* x = static_cast<const T*>(a.x) + row_offset(a.x_layout, row);
      T* out = static_cast<T*>(a.out) + row * a.tiles.width;
      const float gate = to_float(static_cast<const T*>(a.gate)[row_offset(a.gate_layout, row)]);
      const Vec factor = div(one, add(one, exp(broadcast(-gate))));
      for (int64_t i = tile.column_begin; i < tile.column_end; i += kLanes) {
        const int count = lanes_at(i, tile.column_end);
        store_some(out + i, mul(load_some(x + i, count), factor), count);
      }
    }
  }
}
