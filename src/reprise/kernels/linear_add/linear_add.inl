// The product is rounded to T before the addition, because separate kernels for linear and add
// would store and read it as T.
template <typename T>
void run_linear_add(const void* args, device::BlockRange blocks) noexcept {
  const auto& a = *static_cast<const LinearAddArguments*>(args);
  T product[kMaxLinearTileRows * kMaxLinearTileColumns];
  for (uint32_t block = blocks.begin; block < blocks.end; ++block) {
    const LinearBlock b = linear_block(a.product, block);
    LinearColumns<T> columns;
    columns.append(a.product, b.column, b.columns);
    linear_tile<T, T>(a.product, b.row, b.rows, columns, product, b.columns);
    for (int64_t r = 0; r < b.rows; ++r) {
      add_row(static_cast<const T*>(a.residual) + (b.row + r) * a.residual_stride + b.column,
              product + r * b.columns,
              static_cast<T*>(a.product.out) + (b.row + r) * a.product.columns + b.column,
              b.columns);
    }
  }
}
