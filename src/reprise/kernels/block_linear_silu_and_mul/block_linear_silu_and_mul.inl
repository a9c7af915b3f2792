// A block multiplies with panels of both halves of the weight: first the gates of its columns, then
// the ups. Both are rounded to T, as block_linear would have stored them. Calls
// `store(row, slot, result)` with the results of the outputs of one panel of gates.
template <typename T, typename Store>
inline void run_gated_panels(const BlockLinearArguments& a,
                             device::BlockRange blocks,
                             const Store& store) {
  const PanelHeader header = panel_header(a.weight);
  for_panel_blocks(a, blocks, [&](int64_t row, int64_t rows, int64_t panel, int64_t panels) {
    PanelSlots slots;
    for (int64_t p = panel; p < panel + panels; ++p) append_panel(slots, a.weight, header, p);
    for (int64_t p = panel; p < panel + panels; ++p)
      append_panel(slots, a.weight, header, a.panels + p);
    block_linear_sums(a, row, rows, slots, [&](int64_t r, const float* sums) {
      for (int64_t s = 0; s < panels; ++s) {
        T gate[kPanelColumns];
        T up[kPanelColumns];
        T result[kPanelColumns];
        round_sums(a, slots.of[s], sums + s * kPanelColumns, gate);
        round_sums(a, slots.of[panels + s], sums + (panels + s) * kPanelColumns, up);
        silu_and_mul_row(gate, up, result, slots.of[s].columns);
        store(row + r, slots.of[s], result);
      }
    });
  });
}

template <typename T>
void run_block_linear_silu_and_mul(const void* args, device::BlockRange blocks) noexcept {
  const auto& a = *static_cast<const BlockLinearArguments*>(args);
  run_gated_panels<T>(a, blocks, [&](int64_t row, const PanelSlot& slot, const T* result) {
    T* out = static_cast<T*>(a.out) + row * a.columns + slot.column;
    __builtin_memcpy(out, result, static_cast<size_t>(slot.columns) * sizeof(T));
  });
}

// Two panels of gates make a block of activations. `columns` counts blocks here.
template <typename T>
void run_block_linear_silu_and_mul_quantize_blocks(const void* args,
                                                   device::BlockRange blocks) noexcept {
  const auto& a = *static_cast<const BlockLinearArguments*>(args);
  T block[kPanelBlock];
  run_gated_panels<T>(a, blocks, [&](int64_t row, const PanelSlot& slot, const T* result) {
    const int64_t in_block = slot.column % kPanelBlock;
    __builtin_memcpy(block + in_block, result, sizeof(T) * kPanelColumns);
    if (in_block == 0) return;
    quantize_block(
        block, static_cast<ActivationBlock*>(a.out) + row * a.columns + slot.column / kPanelBlock);
  });
}
