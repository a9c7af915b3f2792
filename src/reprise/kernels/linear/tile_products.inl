// Products of rows of bfloat16 or int8 with a weight in panels of this type, through AMX tiles. 64
// bytes of the depth of a panel are a tile without conversion, and so are those of 16 rows of x.
// The sum of an output is one chain of instructions over the depth, one tile each. So it depends
// only on the depth, and a row has the same bits in any batch. Sums of int8 are exact, in int32.
#include "reprise/kernels/linear/tile_operands.inl"

#include "reprise/kernels/linear/few_row_tiles.inl"
#include "reprise/kernels/linear/many_row_tiles.inl"

template <typename T>
class TileProducts {
 public:
  /// Calls `store_row(r, sums)` with the sums of each row; see linear_sums.
  template <typename Columns, typename StoreRow>
  void run(const LinearArguments& a,
           const LinearBlock& block,
           const Columns& columns,
           const StoreRow& store_row) {
    if (block.rows == 0) return;
    operands_.set(a, block, columns);
    if (block.rows <= kGroupRows) {
      finish(a, block, columns, FewRowTiles<T>(operands_), store_row);
    } else {
      finish(a, block, columns, ManyRowTiles<T>(operands_), store_row);
    }
  }

 private:
  template <typename Columns, typename Order, typename StoreRow>
  void finish(const LinearArguments& a,
              const LinearBlock& block,
              const Columns& columns,
              Order order,
              const StoreRow& store_row) {
    order.multiply();
    float sums[kMostLinearColumns];
    for (int64_t r = 0; r < block.rows; ++r) {
      for (int64_t p = 0; p < operands_.panels; ++p) {
        const int64_t c = p * kPanelColumns;
        finish_sums(order.sums_of(r, p), a, block.row + r, columns.weight[c], sums + c);
      }
      store_row(r, sums);
    }
  }

  TileOperands<T> operands_;
};
