// The product is rounded to T before the addition, because separate kernels for block_linear and
// add would store and read it as T.
template <typename T>
void run_block_linear_add(const void* args, device::BlockRange blocks) noexcept {
  const auto& arguments = *static_cast<const BlockLinearAddArguments*>(args);
  const BlockLinearArguments& a = arguments.product;
  const PanelHeader header = panel_header(a.weight);
  for_panel_blocks(a, blocks, [&](int64_t row, int64_t rows, int64_t panel, int64_t panels) {
    PanelSlots slots;
    for (int64_t p = panel; p < panel + panels; ++p) append_panel(slots, a.weight, header, p);
    block_linear_sums(a, row, rows, slots, [&](int64_t r, const float* sums) {
      const T* residual =
          static_cast<const T*>(arguments.residual) + (row + r) * arguments.residual_stride;
      T* out = static_cast<T*>(a.out) + (row + r) * a.columns;
      T product[kMaxPanelSlots * kPanelColumns];
      for (int s = 0; s < slots.size; ++s) {
        round_sums(a, slots.of[s], sums + s * kPanelColumns, product + s * kPanelColumns);
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
  });
}
