// Computes the codes of half a block, and their sum. A NaN gets an arbitrary code: its block has
// the scale NaN.
template <typename T>
inline int16_t quantize_half_block(const T* x, float inverse, int8_t* codes) {
  Vec sums = zero();
  for (int64_t i = 0; i < kPanelBlock / 2; i += kLanes) {
    const Vec rounded = round_nearest(mul(load(x + i), broadcast(inverse)));
    const Vec code = max(rounded, broadcast(-127.0F));
    store(codes + i, code);
    sums = add(sums, code);
  }
  return static_cast<int16_t>(sum(sums));
}

// A NaN in a block makes the block's scale NaN, and with it all outputs of the row.
template <typename T>
inline void quantize_block(const T* x, ActivationBlock* out) {
  const float magnitude =
      bits_to_float(static_cast<uint32_t>(largest_magnitude(x, kPanelBlock, 0)));
  const float inverse = magnitude > 0 ? 127.0F / magnitude : 0.0F;
  out->scale = magnitude / 127.0F;
  for (int half = 0; half < 2; ++half) {
    const int64_t begin = half * (kPanelBlock / 2);
    out->sums[half] = quantize_half_block(x + begin, inverse, out->codes + begin);
  }
}

// `row`: see StoredRow.
template <typename T, typename Row>
inline void quantize_row_blocks(const Row& row, int64_t width, ActivationBlock* out) {
  T scratch[kQuantizedPiece];
  for (int64_t i = 0; i < width; i += kQuantizedPiece) {
    const int64_t count = min_of(kQuantizedPiece, width - i);
    const T* piece = row.piece(i, count, scratch);
    for (int64_t b = 0; b < count; b += kPanelBlock, ++out) quantize_block(piece + b, out);
  }
}

// `row_of(row)` returns the source of a row.
template <typename T, typename RowOf>
inline void quantize_blocks_of_rows(const QuantizeBlocksArguments& a,
                                    device::BlockRange blocks,
                                    const RowOf& row_of) {
  const int64_t row_blocks = a.tiles.width / kPanelBlock;
  for (uint32_t block = blocks.begin; block < blocks.end; ++block) {
    const RowTile tile = row_tile(a.tiles, block);
    for (int64_t row = tile.row_begin; row < tile.row_end; ++row) {
      quantize_row_blocks<T>(row_of(row), a.tiles.width, a.out + row * row_blocks);
    }
  }
}

template <typename T>
void run_quantize_blocks(const void* args, device::BlockRange blocks) noexcept {
  const auto& a = *static_cast<const QuantizeBlocksArguments*>(args);
  quantize_blocks_of_rows<T>(a, blocks, [&](int64_t row) {
    return StoredRow<T>{static_cast<const T*>(a.x) + row_offset(a.x_layout, row)};
  });
}

template <typename T>
void run_rms_norm_quantize_blocks(const void* args, device::BlockRange blocks) noexcept {
  const auto& a = *static_cast<const QuantizeBlocksArguments*>(args);
  quantize_blocks_of_rows<T>(a, blocks, [&](int64_t row) {
    const T* x = static_cast<const T*>(a.x) + row_offset(a.x_layout, row);
    return NormedRow<T>{
        x, static_cast<const T*>(a.weight), rms_norm_scale(x, a.tiles.width, a.epsilon)};
  });
}
