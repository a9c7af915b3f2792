// A block computes one head of its rows, because norm and rotation need a whole head. The head is
// rounded to T, as linear would have stored it.
template <typename T>
void run_linear_rope_kv_write(const void* args, device::BlockRange blocks) noexcept {
  const auto& a = *static_cast<const LinearRopeKvWriteArguments*>(args);
  const int64_t head_dim = a.to.head_dim;
  T head[kMaxLinearTileRows * kMaxLinearRopeHeadDim];
  for (uint32_t block = blocks.begin; block < blocks.end; ++block) {
    const LinearBlock b = linear_block(a.product, block);
    for (int64_t c = 0; c < head_dim; c += kMaxLinearTileColumns) {
      LinearColumns<T> columns;
      columns.append(a.product, b.column + c, min_of(kMaxLinearTileColumns, head_dim - c));
      linear_tile<T, T>(a.product, b.row, b.rows, columns, head + c, head_dim);
    }
    const int64_t index = b.column / head_dim;
    if (const void* norm = norm_of_head(a.to, index); norm != nullptr) {
      for (int64_t r = 0; r < b.rows; ++r) {
        T* row = head + r * head_dim;
        rms_norm_row<T>(row, static_cast<const T*>(norm), row, head_dim, a.to.epsilon);
      }
    }
    for (int64_t r = 0; r < b.rows; ++r) {
      if (is_quantized(a.to, index)) {
        quantize_head<T>(a.to, b.row + r, index, head + r * head_dim);
        continue;
      }
      T* place = place_of_head<T>(a.to, b.row + r, index);
      if (place != nullptr) place_head<T>(a.to, b.row + r, index, head + r * head_dim, place);
    }
  }
}
