// Rows of one expert that are multiplied together.
constexpr int kExpertRows = 32;

// Some columns of one expert, and its rows that were found so far. Most blocks of a small batch
// find no row, so the weight rows are looked up only with the first row.
template <typename T>
struct ExpertBlock {
  const ExpertLinearArguments& a;
  int64_t expert;
  int64_t column;
  int64_t rows[kExpertRows];
  int64_t count = 0;
  LinearColumns<T> columns;

  // The arrays are not initialised: a block without rows must cost next to nothing.
  ExpertBlock(const ExpertLinearArguments& arguments, int64_t number, int64_t first_column)
      : a(arguments), expert(number), column(first_column) {}

  void find_columns() {
    // The columns of one expert are those of a linear layer.
    LinearArguments of_expert = {};
    of_expert.weight = static_cast<const T*>(a.weight) + expert * a.columns * a.depth;
    of_expert.bias =
        a.bias == nullptr ? nullptr : static_cast<const T*>(a.bias) + expert * a.columns;
    of_expert.depth = a.depth;
    columns.append(of_expert, column, min_of(a.columns_per_block, a.columns - column));
  }

  void multiply() {
    if (columns.size == 0) find_columns();
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
        add_biases(sums + g * columns.size, columns.bias, columns.size, to);
      }
    }
    count = 0;
  }

  void add_row(int64_t row) {
    rows[count++] = row;
    if (count == kExpertRows) multiply();
  }

  // Writes a row whose expert another rank has. The row has the weight 0 later, so its elements
  // only must be numbers.
  void clear_row(int64_t row) const {
    T* to = static_cast<T*>(a.out) + row * a.columns + column;
    const int64_t size = min_of(a.columns_per_block, a.columns - column);
    for (int64_t i = 0; i < size; ++i) store_element(to + i, 0.0F);
  }
};

template <typename T>
void run_expert_linear(const void* args, device::BlockRange blocks) noexcept {
  const auto& a = *static_cast<const ExpertLinearArguments*>(args);
  const int64_t tiles = ceil_div(a.columns, a.columns_per_block);
  for (uint32_t block = blocks.begin; block < blocks.end; ++block) {
    ExpertBlock<T> work(a, block / tiles, block % tiles * a.columns_per_block);
    for (int64_t row = 0; row < a.rows; ++row) {
      if (a.experts[row] == work.expert) work.add_row(row);
      if (work.expert == 0 && a.experts[row] < 0) work.clear_row(row);
    }
    if (work.count > 0) work.multiply();
  }
}
