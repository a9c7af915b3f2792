inline float largest_of(const int8_t*) { return 127.0F; }
inline float largest_of(const Float8E4M3*) { return 448.0F; }
inline float largest_of(const Float8E5M2*) { return 57344.0F; }

template <typename T, typename Q>
inline void quantize_columns(const T* x, Q* q, int64_t width, float scale) {
  for (int64_t i = 0; i < width; ++i) store_element(q + i, to_float(x[i]) / scale);
}

// Returns the bits of the largest magnitude; a NaN is larger than any number. The bits of
// magnitudes have the same order as the magnitudes.
template <typename T>
inline int32_t largest_magnitude(const T* x, int64_t width, int32_t largest) {
  for (int64_t i = 0; i < width; ++i) {
    const auto magnitude = static_cast<int32_t>(float_to_bits(to_float(x[i])) & 0x7fffffffU);
    largest = magnitude > largest ? magnitude : largest;
  }
  return largest;
}

// The scale depends on the whole row, and a row may be larger than the stack. Rows that are
// computed and not stored are therefore computed twice, piece by piece.
constexpr int kQuantizedPiece = 256;

template <typename T>
struct StoredRow {
  const T* x;
  const T* piece(int64_t begin, int64_t, T*) const { return x + begin; }
};
template <typename T>
struct NormedRow {
  const T* x;
  const T* weight;
  float scale;
  const T* piece(int64_t begin, int64_t width, T* scratch) const {
    scale_columns(x + begin, weight + begin, scratch, width, scale);
    return scratch;
  }
};
template <typename T>
struct GatedRow {
  const T* gate;
  const T* up;
  const T* piece(int64_t begin, int64_t width, T* scratch) const {
    silu_and_mul_row(gate + begin, up + begin, scratch, width);
    return scratch;
  }
};

// Returns the scale.
template <typename T, typename Q, typename Row>
inline float quantize_row(const Row& row, Q* q, int64_t width) {
  T scratch[kQuantizedPiece];
  int32_t largest = 0;
  for (int64_t i = 0; i < width; i += kQuantizedPiece) {
    const int64_t count = min_of(kQuantizedPiece, width - i);
    largest = largest_magnitude(row.piece(i, count, scratch), count, largest);
  }
  const float magnitude = bits_to_float(static_cast<uint32_t>(largest));
  const bool is_tiny = magnitude < kSmallestQuantizedMagnitude;  // false for a NaN
  const float scale = (is_tiny ? kSmallestQuantizedMagnitude : magnitude) / largest_of(q);
  for (int64_t i = 0; i < width; i += kQuantizedPiece) {
    const int64_t count = min_of(kQuantizedPiece, width - i);
    quantize_columns(row.piece(i, count, scratch), q + i, count, scale);
  }
  return scale;
}

// `row_of(row)` returns the source of a row.
template <typename T, typename Q, typename RowOf>
inline void quantize_rows(const QuantizeRowsArguments& a,
                          device::BlockRange blocks,
                          const RowOf& row_of) {
  const int64_t width = a.tiles.width;
  for (uint32_t block = blocks.begin; block < blocks.end; ++block) {
    const RowTile tile = row_tile(a.tiles, block);
    for (int64_t row = tile.row_begin; row < tile.row_end; ++row) {
      a.scales[row] = quantize_row<T>(row_of(row), static_cast<Q*>(a.q) + row * width, width);
    }
  }
}

template <typename T, typename Q>
void run_quantize_per_token(const void* args, device::BlockRange blocks) noexcept {
  const auto& a = *static_cast<const QuantizeRowsArguments*>(args);
  quantize_rows<T, Q>(a, blocks, [&](int64_t row) {
    return StoredRow<T>{static_cast<const T*>(a.x) + row_offset(a.x_layout, row)};
  });
}

template <typename T, typename Q>
void run_rms_norm_quant(const void* args, device::BlockRange blocks) noexcept {
  const auto& a = *static_cast<const QuantizeRowsArguments*>(args);
  const int64_t width = a.tiles.width;
  quantize_rows<T, Q>(a, blocks, [&](int64_t row) {
    const T* x = static_cast<const T*>(a.x) + row_offset(a.x_layout, row);
    return NormedRow<T>{x, static_cast<const T*>(a.weight), rms_norm_scale(x, width, a.epsilon)};
  });
}

template <typename T, typename Q>
void run_fused_add_rms_norm_quant(const void* args, device::BlockRange blocks) noexcept {
  const auto& a = *static_cast<const QuantizeRowsArguments*>(args);
  const int64_t width = a.tiles.width;
  quantize_rows<T, Q>(a, blocks, [&](int64_t row) {
    T* sum = static_cast<T*>(a.sum) + row * width;
    add_row(static_cast<const T*>(a.residual) + row_offset(a.residual_layout, row),
            static_cast<const T*>(a.x) + row_offset(a.x_layout, row),
            sum,
            width);
    return NormedRow<T>{
        sum, static_cast<const T*>(a.weight), rms_norm_scale<T>(sum, width, a.epsilon)};
  });
}

template <typename T, typename Q>
void run_silu_and_mul_quant(const void* args, device::BlockRange blocks) noexcept {
  const auto& a = *static_cast<const QuantizeRowsArguments*>(args);
  quantize_rows<T, Q>(a, blocks, [&](int64_t row) {
    const T* gate = static_cast<const T*>(a.x) + row_offset(a.x_layout, row);
    return GatedRow<T>{gate, gate + a.tiles.width};
  });
}

template <typename T, typename Q>
void run_quantize_static(const void* args, device::BlockRange blocks) noexcept {
  const auto& a = *static_cast<const QuantizeStaticArguments*>(args);
  for (uint32_t block = blocks.begin; block < blocks.end; ++block) {
    const RowTile tile = row_tile(a.tiles, block);
    for (int64_t row = tile.row_begin; row < tile.row_end; ++row) {
      quantize_columns(static_cast<const T*>(a.x) + row_offset(a.x_layout, row) + tile.column_begin,
                       static_cast<Q*>(a.q) + row * a.tiles.width + tile.column_begin,
                       tile.column_end - tile.column_begin,
                       *a.scale);
    }
  }
}
