// The elements of x and of the weight are X. The product is rounded to T before the addition,
// because separate kernels for linear and add would store and read it as T.
template <typename T, typename X = T>
void run_linear_add(const void* args, device::BlockRange range) noexcept {
  const auto& a = *static_cast<const LinearAddArguments*>(args);
  PanelProducts<X> products;
  for (LinearBlocks blocks(a.product, range, kMostLinearColumns); blocks.next();) {
    const LinearBlock& b = blocks.now();
    LinearColumns<X, T> columns;
    columns.append(a.product, b.column, b.columns);
    linear_rows(a.product, b, columns, products, [&](int64_t row, const float* sums) {
      T product[kMostLinearColumns];
      add_biases(sums, columns.bias, columns.size, product);
      add_row(static_cast<const T*>(a.residual) + row * a.residual_stride + b.column,
              product,
              static_cast<T*>(a.product.out) + row * a.product.columns + b.column,
              b.columns);
    });
  }
}
