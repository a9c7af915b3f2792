REPRISE_INLINE Vec sigmoid(Vec x) {
  const Vec one = broadcast(1.0F);
  return div(one, add(one, exp(sub(zero(), x))));
}

template <typename T, bool kTimesGate>
inline void gate_rows(const MulGateArguments& a, device::BlockRange blocks) {
  for (uint32_t block = blocks.begin; block < blocks.end; ++block) {
    const RowTile tile = row_tile(a.tiles, block);
    for (int64_t row = tile.row_begin; row < tile.row_end; ++row) {
      const T* x = static_cast<const T*>(a.x) + row_offset(a.x_layout, row);
      const T* gate = static_cast<const T*>(a.gate) + row_offset(a.gate_layout, row);
      T* out = static_cast<T*>(a.out) + row * a.tiles.width;
      for (int64_t i = tile.column_begin; i < tile.column_end; i += kLanes) {
        const int count = lanes_at(i, tile.column_end);
        const Vec g = load_some(gate + i, count);
        const Vec factor = kTimesGate ? silu(g) : sigmoid(g);
        store_some(out + i, mul(load_some(x + i, count), factor), count);
      }
    }
  }
}

template <typename T>
void run_mul_gate(const void* args, device::BlockRange blocks) noexcept {
  const auto& a = *static_cast<const MulGateArguments*>(args);
  if (a.function == OpFunction::silu) return gate_rows<T, true>(a, blocks);
  gate_rows<T, false>(a, blocks);
}
