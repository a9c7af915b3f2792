#include "reprise/kernels/linear/linear_blocks.inl"

/// The address at which a column of a weight in panels begins, and the number of its elements
/// there.
template <typename T>
REPRISE_INLINE int64_t column_begin(int64_t column, int64_t depth) {
  return __is_same(T, int8_t) ? int8_panel_offset(column, 0, depth)
                              : column_panel_offset(column, 0, depth);
}
template <typename T>
REPRISE_INLINE int64_t weight_row_elements(int64_t depth) {
  return __is_same(T, int8_t) ? depth + kInt8TailBytes : depth;
}

// The weight rows of one block of the grid, each with its bias. They belong to neighbouring
// outputs, or to several ranges of outputs that an epilogue needs together. Ranges of a weight in
// panels are whole panels.
template <typename T, typename Bias = T>
struct LinearColumns {
  // For a weight in panels: the addresses at which the columns' pairs begin.
  const T* weight[kMostLinearColumns];
  float bias[kMostLinearColumns];
  int64_t size = 0;

  void append(const LinearArguments& a, int64_t column, int64_t columns) {
    for (int64_t c = column; c < column + columns; ++c, ++size) {
      weight[size] = begin_of(a, c);
      // Adding -0 changes no number, not even -0.
      bias[size] = a.bias == nullptr ? -0.0F : to_float(static_cast<const Bias*>(a.bias)[c]);
    }
  }

 private:
  static const T* begin_of(const LinearArguments& a, int64_t column) {
    if (a.family == WeightFamily::float_panels) {
      // Where the panel begins.
      const int64_t panel = column / kPanelColumns * kPanelColumns * a.column_bytes;
      return reinterpret_cast<const T*>(static_cast<const uint8_t*>(a.weight) + panel);
    }
    return static_cast<const T*>(a.weight) +
           (is_in_panels(a) ? column_begin<T>(column, a.depth) : column * a.depth);
  }
};

// Computes rows [row, row + rows) times the weight rows of `columns` and calls `store_row(r, sums)`
// with the sums of row + r. A few rows of x stay in L1 while the weight rows are read, and the
// weight rows stay in L2 over all rows.
template <typename T, typename Bias, typename StoreRow>
inline void linear_sums(const LinearArguments& a,
                        int64_t row,
                        int64_t rows,
                        const LinearColumns<T, Bias>& columns,
                        const StoreRow& store_row) {
  const T* x_rows[kMaxLinearTileRows];
  typename Dot<T>::Result sums[kTileRows * kMostLinearColumns];
  for (int64_t r = 0; r < rows; ++r)
    x_rows[r] = static_cast<const T*>(a.x) + (row + r) * a.x_stride;
  for (int64_t r = 0; r < rows; r += kTileRows) {
    const int64_t group = min_of(kTileRows, rows - r);
    dot_products<T>(x_rows + r, group, columns.weight, columns.size, a.depth, sums, columns.size);
    for (int64_t g = 0; g < group; ++g) store_row(r + g, sums + g * columns.size);
  }
}

/// out = sums + bias, rounded to Out.
template <typename Out>
inline void add_biases(const float* sums, const float* bias, int64_t size, Out* out) {
  for (int64_t c = 0; c < size; c += kLanes) {
    const int count = lanes_at(c, size);
    store_some(out + c, add(load_some(sums + c, count), load_some(bias + c, count)), count);
  }
}

// Adds the biases to the same sums and rounds to Out.
template <typename T, typename Out>
inline void linear_tile(const LinearArguments& a,
                        int64_t row,
                        int64_t rows,
                        const LinearColumns<T>& columns,
                        Out* out,
                        int64_t out_stride) {
  linear_sums(a, row, rows, columns, [&](int64_t r, const float* sums) {
    add_biases(sums, columns.bias, columns.size, out + r * out_stride);
  });
}

#include "reprise/kernels/linear/float_products.inl"
#include "reprise/kernels/linear/panel_products.inl"
#if defined(REPRISE_ISA_HAS_TILES) || defined(REPRISE_ISA_HAS_BF16)
#include "reprise/kernels/linear/float_products_in_bf16.inl"
#define REPRISE_ISA_MULTIPLIES_BF16
#endif

/// Calls `store_row(row, sums)` with the sums of each row of the block, without biases.
template <typename T, typename Bias, typename StoreRow>
inline void linear_rows(const LinearArguments& a,
                        const LinearBlock& block,
                        const LinearColumns<T, Bias>& columns,
                        PanelProducts<T>& products,
                        const StoreRow& store_row) {
  const auto store_sums = [&](int64_t r, const float* sums) { store_row(block.row + r, sums); };
  if constexpr (__is_same(T, int8_t)) {
    products.run(a, block, columns, store_sums);
  } else {
    if (a.family == WeightFamily::float_panels) {
#ifdef REPRISE_ISA_MULTIPLIES_BF16
      if constexpr (__is_same(T, BFloat16)) {
        return float_products_in_bf16(a, block, columns, products, store_sums);
      }
#endif
      return float_products<T>(a, block, columns, store_sums);
    }
    if constexpr (__is_same(T, BFloat16)) {
      if (is_in_panels(a)) return products.run(a, block, columns, store_sums);
    }
    linear_sums(a, block.row, block.rows, columns, store_sums);
  }
}

template <typename T, typename Out, typename Bias = T>
void run_linear(const void* args, device::BlockRange range) noexcept {
  const auto& a = *static_cast<const LinearArguments*>(args);
  PanelProducts<T> products;
  for (LinearBlocks blocks(a, range, kMostLinearColumns); blocks.next();) {
    const LinearBlock& b = blocks.now();
    LinearColumns<T, Bias> columns;
    columns.append(a, b.column, b.columns);
    linear_rows(a, b, columns, products, [&](int64_t row, const float* sums) {
      Out* out = static_cast<Out*>(a.out) + row * a.columns + b.column;
      add_biases(sums, columns.bias, columns.size, out);
    });
  }
}

// clang-format off: later files use earlier ones.
#include "reprise/kernels/linear/epilogues.inl"
#include "reprise/kernels/linear/expert_linear.inl"
#include "reprise/kernels/linear/blocks/block_linear.inl"
#include "reprise/kernels/linear/blocks/block_epilogues.inl"
#include "reprise/kernels/linear/blocks/block_expert_linear.inl"
// clang-format on
