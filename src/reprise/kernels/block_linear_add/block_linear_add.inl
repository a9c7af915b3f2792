// The product is rounded to T before the addition, because separate kernels for block_linear and
// add would store and read it as T.
template <typename T, RowBits kBits = RowBits::same_in_any_batch>
void run_block_linear_add(const void* args, device::BlockRange blocks) noexcept {
  const auto& arguments = *static_cast<const BlockLinearAddArguments*>(args);
  const BlockLinearArguments& a = arguments.product;
  const PanelHeader header = panel_header(a.weight);
  const auto slots_of = [&](int64_t panel, int64_t panels) {
    return neighbouring_panels(a.weight, header, panel, panels);
  };
  for_products<kBits>(
      a, blocks, slots_of, [&](const PanelSlots& slots, int64_t row, const float* sums) {
        const T* residual =
            static_cast<const T*>(arguments.residual) + row * arguments.residual_stride;
        T* out = static_cast<T*>(a.out) + row * a.columns;
        T product[kMaxPanelSlots * kPanelColumns];
        for (int s = 0; s < slots.size; ++s) {
          round_sums(a.bias, slots.of[s], sums + s * kPanelColumns, product + s * kPanelColumns);
        }
        // Neighbouring panels are added at once; the last panel of a part may have fewer columns.
        for (int s = 0; s < slots.size;) {
          const int64_t column = slots.of[s].column;
          const T* from = product + s * kPanelColumns;
          int64_t columns = slots.of[s].columns;
          for (++s; s < slots.size && columns % kPanelColumns == 0; ++s) {
            columns += slots.of[s].columns;
          }
          add_row(residual + column, from, out + column, columns);
        }
      });
}
