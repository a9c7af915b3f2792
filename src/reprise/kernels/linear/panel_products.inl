// Products of bfloat16 or int8 rows with a weight in panels, by the instruction set's own way. A
// kernel makes one object, around all its blocks.

/// The sums of products of T.
template <typename T>
struct SumOfPanelsTrait {
  using Type = float;
};
template <>
struct SumOfPanelsTrait<int8_t> {
  using Type = int32_t;
};
template <typename T>
using SumOfPanels = typename SumOfPanelsTrait<T>::Type;

/// What a kernel adds its epilogue to: the sums of a row with 16 outputs, whose panel is `panel`.
template <typename T>
REPRISE_INLINE void finish_sums(
    const float* sums, const LinearArguments&, int64_t, const T*, float* out) {
  for (int64_t c = 0; c < kPanelColumns; c += kLanes) store(out + c, load(sums + c));
}
/// Those of int8 times their scales: (sum * scale of the row) * scale of the output.
REPRISE_INLINE void finish_sums(
    const int32_t* sums, const LinearArguments& a, int64_t row, const int8_t* panel, float* out) {
  const auto* tail = reinterpret_cast<const uint8_t*>(panel + a.depth * kPanelColumns);
  Panel::store(out, Panel::scaled(Panel::load_sums(sums), a.x_scale[row], Panel::load_f32(tail)));
}

#ifdef REPRISE_ISA_HAS_TILES
#include "reprise/kernels/linear/tile_products.inl"
template <typename T>
using PanelProducts = TileProducts<T>;
#else
template <typename T>
struct PanelProducts {
  static constexpr int64_t kMostRows = __is_same(T, int8_t) ? kPanelTileRows : kPairTileRows;

  /// Calls `store_row(r, sums)` with the sums of each row; see linear_sums.
  template <typename Columns, typename StoreRow>
  void run(const LinearArguments& a,
           const LinearBlock& block,
           const Columns& columns,
           const StoreRow& store_row) {
    const T* x_rows[kMostRows];
    SumOfPanels<T> sums[kMostRows * kMostLinearColumns];
    float finished[kMostLinearColumns];
    for (int64_t r = 0; r < block.rows; r += kMostRows) {
      const int64_t group = min_of(kMostRows, block.rows - r);
      for (int64_t g = 0; g < group; ++g) {
        x_rows[g] = static_cast<const T*>(a.x) + (block.row + r + g) * a.x_stride;
      }
      multiply(x_rows, group, columns, a.depth, sums);
      for (int64_t g = 0; g < group; ++g) {
        for (int64_t c = 0; c < columns.size; c += kPanelColumns) {
          finish_sums(
              sums + g * columns.size + c, a, block.row + r + g, columns.weight[c], finished + c);
        }
        store_row(r + g, finished);
      }
    }
  }

 private:
  template <typename Columns>
  static void multiply(
      const T* const* x, int64_t rows, const Columns& columns, int64_t depth, SumOfPanels<T>* out) {
    if constexpr (__is_same(T, int8_t)) {
      four_products(x, rows, columns.weight, columns.size, depth, out);
    } else {
      pair_products(x, rows, columns.weight, columns.size, depth, out);
    }
  }
};
#endif
