// The products with weights in blocks.
template <typename Out, RowBits kBits = RowBits::same_in_any_batch>
void run_block_linear(const void* args, device::BlockRange blocks) noexcept {
  const auto& a = *static_cast<const BlockLinearArguments*>(args);
  const PanelHeader header = panel_header(a.weight);
  for_products<kBits>(
      a,
      blocks,
      [&](int64_t panel, int64_t panels) {
        return neighbouring_panels(a.weight, header, panel, panels);
      },
      [&](const PanelSlots& slots, int64_t row, const float* sums) {
        Out* out = static_cast<Out*>(a.out) + row * a.columns;
        for (int s = 0; s < slots.size; ++s) {
          round_sums(a.bias, slots.of[s], sums + s * kPanelColumns, out + slots.of[s].column);
        }
      });
}

// The product is rounded to T before the addition, because separate kernels for block_linear and
// add would store and read it as T.
template <typename T, RowBits kBits = RowBits::same_in_any_batch>
void run_block_linear_add(const void* args, device::BlockRange blocks) noexcept {
  const auto& a = *static_cast<const BlockLinearArguments*>(args);
  const PanelHeader header = panel_header(a.weight);
  const auto slots_of = [&](int64_t panel, int64_t panels) {
    return neighbouring_panels(a.weight, header, panel, panels);
  };
  for_products<kBits>(
      a, blocks, slots_of, [&](const PanelSlots& slots, int64_t row, const float* sums) {
        const T* residual = static_cast<const T*>(a.residual) + row * a.residual_stride;
        T* out = static_cast<T*>(a.out) + row * a.columns;
        T product[kMaxPanelSlots * kPanelColumns];
        for (int s = 0; s < slots.size; ++s) {
          round_sums(a.bias, slots.of[s], sums + s * kPanelColumns, product + s * kPanelColumns);
        }
        // Neighbouring panels are added together; the last panel of a part may have fewer columns.
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

// A block of the grid multiplies with panels of both halves of the weight: first the gates of its
// columns, then the ups. Both are rounded to T, because block_linear would store them as T. Calls
// `store(row, column, columns, result)` with neighbouring results of one row.
template <typename T, RowBits kBits, typename Store>
inline void run_gated_panels(const BlockLinearArguments& a,
                             device::BlockRange blocks,
                             const Store& store) {
  const PanelHeader header = panel_header(a.weight);
  const auto slots_of = [&](int64_t panel, int64_t panels) {
    PanelSlots slots = neighbouring_panels(a.weight, header, panel, panels);
    for (int64_t p = panel; p < panel + panels; ++p) {
      append_panel(slots, a.weight, header, a.panels + p);
    }
    return slots;
  };
  for_products<kBits>(
      a, blocks, slots_of, [&](const PanelSlots& slots, int64_t row, const float* sums) {
        const int panels = slots.size / 2;
        // Only the last panel of the gates can have fewer columns than a panel has.
        const int64_t column = slots.of[0].column;
        const int64_t columns = slots.of[panels - 1].column + slots.of[panels - 1].columns - column;
        T gate[kMaxPanelSlots / 2 * kPanelColumns];
        T up[kMaxPanelSlots / 2 * kPanelColumns];
        T result[kMaxPanelSlots / 2 * kPanelColumns];
        for (int s = 0; s < panels; ++s) {
          const int64_t at = s * kPanelColumns;
          round_sums(a.bias, slots.of[s], sums + at, gate + at);
          round_sums(a.bias, slots.of[panels + s], sums + (panels + s) * kPanelColumns, up + at);
        }
        silu_and_mul_row(gate, up, result, columns);
        store(row, column, columns, result);
      });
}

template <typename T, RowBits kBits = RowBits::same_in_any_batch>
void run_block_linear_silu_and_mul(const void* args, device::BlockRange blocks) noexcept {
  const auto& a = *static_cast<const BlockLinearArguments*>(args);
  run_gated_panels<T, kBits>(
      a, blocks, [&](int64_t row, int64_t column, int64_t columns, const T* result) {
        T* out = static_cast<T*>(a.out) + row * a.columns + column;
        __builtin_memcpy(out, result, static_cast<size_t>(columns) * sizeof(T));
      });
}

// Two panels of gates give a block of activations. `columns` counts blocks here.
template <typename T, RowBits kBits = RowBits::same_in_any_batch>
void run_block_linear_silu_and_mul_quantize_blocks(const void* args,
                                                   device::BlockRange blocks) noexcept {
  const auto& a = *static_cast<const BlockLinearArguments*>(args);
  run_gated_panels<T, kBits>(a, blocks, [&](int64_t row, int64_t column, int64_t, const T* result) {
    quantize_block(result,
                   static_cast<ActivationBlock*>(a.out) + row * a.columns + column / kPanelBlock);
  });
}
