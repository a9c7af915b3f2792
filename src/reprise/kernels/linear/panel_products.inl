// Products of bfloat16 rows with a weight in panels, by the instruction set's own way. A kernel
// makes one object, around all its blocks.
#ifdef REPRISE_ISA_HAS_TILES
#include "reprise/kernels/linear/tile_products.inl"
using PanelProducts = TileProducts;
#else
struct PanelProducts {
  /// Calls `store_row(r, sums)` with the sums of each row; see linear_sums.
  template <typename Columns, typename StoreRow>
  void run(const LinearArguments& a,
           const LinearBlock& block,
           const Columns& columns,
           const StoreRow& store_row) {
    const BFloat16* x_rows[kPairTileRows];
    float sums[kPairTileRows * kMostLinearColumns];
    for (int64_t r = 0; r < block.rows; r += kPairTileRows) {
      const int64_t group = min_of(kPairTileRows, block.rows - r);
      for (int64_t g = 0; g < group; ++g) {
        x_rows[g] = static_cast<const BFloat16*>(a.x) + (block.row + r + g) * a.x_stride;
      }
      pair_products(x_rows, group, columns.weight, columns.size, a.depth, sums);
      for (int64_t g = 0; g < group; ++g) store_row(r + g, sums + g * columns.size);
    }
  }
};
#endif
