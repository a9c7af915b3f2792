// A NaN in a block makes its scale NaN, and so all outputs of the row.
template <typename T>
inline void quantize_block(const T* x, ActivationBlock* out) {
  const float magnitude =
      bits_to_float(static_cast<uint32_t>(largest_magnitude(x, kPanelBlock, 0)));
  const float scale = magnitude / 127.0F;
  const float inverse = magnitude > 0 ? 127.0F / magnitude : 0.0F;
  int32_t sum = 0;
  for (int64_t i = 0; i < kPanelBlock; ++i) {
    store_element(out->codes + i, to_float(x[i]) * inverse);
    sum += out->codes[i];
  }
  out->scale = scale;
  out->sum = sum;
}

template <typename T>
void run_quantize_blocks(const void* args, device::BlockRange blocks) noexcept {
  const auto& a = *static_cast<const QuantizeBlocksArguments*>(args);
  const int64_t row_blocks = a.tiles.width / kPanelBlock;
  for (uint32_t block = blocks.begin; block < blocks.end; ++block) {
    const RowTile tile = row_tile(a.tiles, block);
    for (int64_t row = tile.row_begin; row < tile.row_end; ++row) {
      const T* x = static_cast<const T*>(a.x) + row_offset(a.x_layout, row);
      for (int64_t b = tile.column_begin / kPanelBlock; b < tile.column_end / kPanelBlock; ++b) {
        quantize_block(x + b * kPanelBlock, a.out + row * row_blocks + b);
      }
    }
  }
}
