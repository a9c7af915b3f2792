// Some panels of one expert, and rows of this expert that are multiplied together.
struct PackedExpert {
  const BlockExpertLinearArguments& a;
  PanelSlots slots;
  int64_t first_output;  // index of its first output, counted over the outputs of all experts

  PackedExpert(const BlockExpertLinearArguments& arguments,
               const PanelHeader& header,
               int64_t expert,
               int64_t panel)
      : a(arguments),
        slots(neighbouring_panels(arguments.weight,
                                  header,
                                  expert * arguments.panels + panel,
                                  min_of(arguments.panels_per_block, arguments.panels - panel))),
        first_output(expert * arguments.columns) {}

  [[nodiscard]] const ActivationBlock* x_of(int64_t row) const {
    return a.x + row / a.rows_per_x * a.blocks;
  }

  template <typename Out>
  void store_row(int64_t row, const float* sums) const {
    Out* out = static_cast<Out*>(a.out) + row * a.columns;
    for (int s = 0; s < slots.size; ++s) {
      const int64_t column = slots.of[s].column - first_output;
      round_sums(a.bias, slots.of[s], sums + s * kPanelColumns, out + column);
    }
  }

  template <typename Out>
  void multiply(int64_t row) const {
    alignas(64) float sums[kPanelSumStride];
    multiply_row(x_of(row), a.blocks, slots, sums);
    store_row<Out>(row, sums);
  }

  template <typename Out>
  void multiply(const int32_t* rows, int64_t count) const {
    count == 1 ? multiply<Out>(rows[0]) : multiply_together<Out>(rows, count);
  }

  // The rows do not follow each other in memory, so each stretch of their blocks is copied to one
  // place. It must not be inlined: a call touches all pages of its frame, and calls with one row
  // must not pay for that.
  template <typename Out>
  __attribute__((noinline)) void multiply_together(const int32_t* rows, int64_t count) const {
    alignas(64) float sums[kMaxPanelTileRows * kPanelSumStride];
    alignas(64) ActivationBlock copies[kMaxPanelTileRows * kMostStretchBlocks];
    const auto stretch_of = [&](int64_t begin, int64_t blocks) {
      for (int64_t r = 0; r < count; ++r) {
        __builtin_memcpy(copies + r * kMostStretchBlocks,
                         x_of(rows[r]) + begin,
                         static_cast<size_t>(blocks) * sizeof(ActivationBlock));
      }
      return RowStretch{.x = copies, .x_blocks = kMostStretchBlocks};
    };
    multiply_rows(stretch_of, count, a.blocks, slots, sums);
    for (int64_t r = 0; r < count; ++r) store_row<Out>(rows[r], sums + r * kPanelSumStride);
  }
};

// Writes the outputs of some panels for a row whose expert another rank has. The row has the weight
// 0 later, so its outputs only must be numbers.
template <typename Out>
inline void clear_outputs(const BlockExpertLinearArguments& a, int64_t row, int64_t panel) {
  const int64_t end = min_of(a.panels, panel + a.panels_per_block) * kPanelColumns;
  Out* out = static_cast<Out*>(a.out) + row * a.columns;
  for (int64_t column = panel * kPanelColumns; column < end; column += kLanes) {
    store(out + column, zero());
  }
}

template <typename Out>
inline void multiply_row_by_row(const BlockExpertLinearArguments& a,
                                const PanelHeader& header,
                                device::BlockRange blocks) {
  const int64_t groups = ceil_div(a.panels, a.panels_per_block);
  for (uint32_t block = blocks.begin; block < blocks.end; ++block) {
    const int64_t row = block / groups;
    const int64_t panel = block % groups * a.panels_per_block;
    if (a.experts[row] < 0) {
      clear_outputs<Out>(a, row, panel);
    } else {
      PackedExpert(a, header, a.experts[row], panel).template multiply<Out>(row);
    }
  }
}

template <typename Out>
inline void multiply_expert_by_expert(const BlockExpertLinearArguments& a,
                                      const PanelHeader& header,
                                      device::BlockRange blocks) {
  const int64_t groups = ceil_div(a.panels, a.panels_per_block);
  int32_t rows[kMaxPanelTileRows];
  int64_t count = 0;
  int64_t listed = -1;  // the expert whose rows are all in `rows`
  for (uint32_t block = blocks.begin; block < blocks.end; ++block) {
    const int64_t expert = block / groups;
    const int64_t panel = block % groups * a.panels_per_block;
    const PackedExpert work(a, header, expert, panel);
    if (listed == expert) {
      if (count > 0) work.template multiply<Out>(rows, count);
    } else {
      bool has_one_list = true;
      count = 0;
      for (int64_t row = 0; row < a.rows; ++row) {
        if (a.experts[row] != expert) continue;
        if (count == kMaxPanelTileRows) {
          work.template multiply<Out>(rows, count);
          count = 0;
          has_one_list = false;
        }
        rows[count++] = static_cast<int32_t>(row);
      }
      if (count > 0) work.template multiply<Out>(rows, count);
      listed = has_one_list ? expert : -1;
    }
    if (expert > 0) continue;
    for (int64_t row = 0; row < a.rows; ++row) {
      if (a.experts[row] < 0) clear_outputs<Out>(a, row, panel);
    }
  }
}

template <typename Out>
void run_block_expert_linear(const void* args, device::BlockRange blocks) noexcept {
  const auto& a = *static_cast<const BlockExpertLinearArguments*>(args);
  const PanelHeader header = panel_header(a.weight);
  if (a.is_by_expert) {
    multiply_expert_by_expert<Out>(a, header, blocks);
  } else {
    multiply_row_by_row<Out>(a, header, blocks);
  }
}
