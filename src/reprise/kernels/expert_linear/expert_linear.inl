// Rows of one expert that are multiplied together.
constexpr int kExpertRows = 32;

template <typename T>
inline void multiply_expert_rows(const ExpertLinearArguments& a,
                                 const int64_t* rows,
                                 int64_t count,
                                 const LinearColumns<T>& columns,
                                 int64_t column) {
  const T* x_rows[kExpertRows];
  for (int64_t r = 0; r < count; ++r) {
    x_rows[r] = static_cast<const T*>(a.x) + rows[r] / a.rows_per_x * a.x_stride;
  }
  float sums[kTileRows * kMaxLinearTileColumns];
  for (int64_t r = 0; r < count; r += kTileRows) {
    const int64_t group = min_of(kTileRows, count - r);
    dot_products<T>(x_rows + r, group, columns.weight, columns.size, a.depth, sums, columns.size);
    for (int64_t g = 0; g < group; ++g) {
      T* to = static_cast<T*>(a.out) + rows[r + g] * a.columns + column;
      for (int64_t c = 0; c < columns.size; ++c) {
        store_element(to + c, sums[g * columns.size + c] + columns.bias[c]);
      }
    }
  }
}

template <typename T>
void run_expert_linear(const void* args, device::BlockRange blocks) noexcept {
  const auto& a = *static_cast<const ExpertLinearArguments*>(args);
  const int64_t tiles = ceil_div(a.columns, a.columns_per_block);
  for (uint32_t block = blocks.begin; block < blocks.end; ++block) {
    const int64_t expert = block / tiles;
    const int64_t column = block % tiles * a.columns_per_block;
    // The columns of one expert are those of a linear layer.
    LinearArguments of_expert = {};
    of_expert.weight = static_cast<const T*>(a.weight) + expert * a.columns * a.depth;
    of_expert.bias =
        a.bias == nullptr ? nullptr : static_cast<const T*>(a.bias) + expert * a.columns;
    of_expert.depth = a.depth;
    LinearColumns<T> columns;
    columns.append(of_expert, column, min_of(a.columns_per_block, a.columns - column));
    int64_t rows[kExpertRows];
    int64_t count = 0;
    for (int64_t row = 0; row < a.rows; ++row) {
      if (a.experts[row] != expert) continue;
      rows[count++] = row;
      if (count == kExpertRows) {
        multiply_expert_rows(a, rows, count, columns, column);
        count = 0;
      }
    }
    multiply_expert_rows(a, rows, count, columns, column);
  }
}
