// The elements of x and of the weight are X. A block multiplies with rows of both halves of the
// weight: first the gates of its columns, then the ups. Both are rounded to T, as linear would have
// stored them.
template <typename T, typename X = T>
void run_linear_silu_and_mul(const void* args, device::BlockRange range) noexcept {
  const auto& a = *static_cast<const LinearArguments*>(args);
  PanelProducts<X> products;
  for (LinearBlocks blocks(a, range, kMostLinearColumns / 2); blocks.next();) {
    const LinearBlock& b = blocks.now();
    LinearColumns<X, T> columns;
    columns.append(a, b.column, b.columns);
    columns.append(a, a.columns + b.column, b.columns);
    linear_rows(a, b, columns, products, [&](int64_t row, const float* sums) {
      T gate[kMostLinearColumns];
      add_biases(sums, columns.bias, columns.size, gate);
      T* out = static_cast<T*>(a.out) + row * a.columns + b.column;
      silu_and_mul_row(gate, gate + b.columns, out, b.columns);
    });
  }
}
