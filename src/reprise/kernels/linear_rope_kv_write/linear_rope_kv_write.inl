// The elements of x and of the weight are X. A block computes one head of its rows, because norm
// and rotation need a whole head. The head is rounded to T, as linear would have stored it.
template <typename T, typename X = T>
void run_linear_rope_kv_write(const void* args, device::BlockRange range) noexcept {
  const auto& a = *static_cast<const LinearRopeKvWriteArguments*>(args);
  const int64_t head_dim = a.to.head_dim;
  T heads[kMostLinearRows * kMaxLinearRopeHeadDim];
  PanelProducts<X> products;
  for (LinearBlocks blocks(a.product, range, head_dim); blocks.next();) {
    const LinearBlock& b = blocks.now();
    const auto head_of = [&](int64_t row) { return heads + (row - b.row) * head_dim; };
    for (int64_t c = 0; c < head_dim; c += kMostLinearColumns) {
      LinearColumns<X, T> columns;
      columns.append(a.product, b.column + c, min_of(kMostLinearColumns, head_dim - c));
      linear_rows(a.product, b, columns, products, [&](int64_t row, const float* sums) {
        add_biases(sums, columns.bias, columns.size, head_of(row) + c);
      });
    }
    const int64_t index = b.column / head_dim;
    const void* norm = norm_of_head(a.to, index);
    for (int64_t row = b.row; row < b.row + b.rows; ++row) {
      T* head = head_of(row);
      if (norm != nullptr) {
        rms_norm_row<T>(head, static_cast<const T*>(norm), head, head_dim, a.to.epsilon);
      }
      if (is_quantized(a.to, index)) {
        quantize_head<T>(a.to, row, index, head);
        continue;
      }
      T* place = place_of_head<T>(a.to, row, index);
      if (place != nullptr) place_head<T>(a.to, row, index, head, place);
    }
  }
}
