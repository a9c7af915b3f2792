// A block multiplies with rows of both halves of the weight: first the gates of its columns, then
// the ups. Both are rounded to T, as linear would have stored them.
template <typename T>
void run_linear_silu_and_mul(const void* args, device::BlockRange blocks) noexcept {
  const auto& a = *static_cast<const LinearArguments*>(args);
  T halves[kMaxLinearTileRows * kMaxLinearTileColumns];
  for (uint32_t block = blocks.begin; block < blocks.end; ++block) {
    const LinearBlock b = linear_block(a, block);
    LinearColumns<T> columns;
    columns.append(a, b.column, b.columns);
    columns.append(a, a.columns + b.column, b.columns);
    linear_tile<T, T>(a, b.row, b.rows, columns, halves, columns.size);
    for (int64_t r = 0; r < b.rows; ++r) {
      const T* gate = halves + r * columns.size;
      T* out = static_cast<T*>(a.out) + (b.row + r) * a.columns + b.column;
      silu_and_mul_row(gate, gate + b.columns, out, b.columns);
    }
  }
}
