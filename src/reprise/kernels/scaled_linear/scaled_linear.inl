template <typename Out, typename Q>
void run_scaled_linear(const void* args, device::BlockRange blocks) noexcept {
  const auto& a = *static_cast<const ScaledLinearArguments*>(args);
  for (uint32_t block = blocks.begin; block < blocks.end; ++block) {
    const LinearBlock b = linear_block(a.product, block);
    LinearColumns<Q, Out> columns;
    columns.append(a.product, b.column, b.columns);
    const float* weight_scale = a.weight_scale + b.column;
    const auto store_row = [&](int64_t r, const typename Dot<Q>::Result* sums) {
      const float scale = a.scale[(b.row + r) * a.scale_stride];
      Out* out = static_cast<Out*>(a.product.out) + (b.row + r) * a.product.columns + b.column;
      for (int64_t c = 0; c < b.columns; ++c) {
        const float scaled = static_cast<float>(sums[c]) * scale * weight_scale[c];
        store_element(out + c, scaled + columns.bias[c]);
      }
    };
    linear_sums(a.product, b.row, b.rows, columns, store_row);
  }
}
