template <typename T>
void run_head_linear(const void* args, device::BlockRange blocks) noexcept {
  const auto& a = *static_cast<const HeadLinearArguments*>(args);
  for (uint32_t block = blocks.begin; block < blocks.end; ++block) {
    const int64_t head = block / a.blocks_per_head;
    LinearArguments of_head = a.first_head;
    of_head.x = static_cast<const T*>(of_head.x) + head * a.x_head_stride;
    of_head.weight = static_cast<const T*>(of_head.weight) + head * of_head.columns * of_head.depth;
    const LinearBlock b = linear_block(of_head, static_cast<uint32_t>(block % a.blocks_per_head));
    LinearColumns<T> columns;
    columns.append(of_head, b.column, b.columns);
    const int64_t out_stride = a.heads * of_head.columns;
    T* out = static_cast<T*>(of_head.out) + b.row * out_stride + head * of_head.columns + b.column;
    linear_tile<T, T>(of_head, b.row, b.rows, columns, out, out_stride);
  }
}
