#include "reprise/kernels/launch.h"

#include <algorithm>

#include "reprise/base/assert.h"

namespace reprise::kernels {
namespace {

device::BufferUse use(const Tensor& tensor, device::BufferUse::Access access) {
  if (!tensor.defined()) return {};
  const device::BufferView extent = tensor.extent();
  return {extent.data, extent.bytes, access};
}

}  // namespace

device::BufferUse reads(const Tensor& tensor) {
  return use(tensor, device::BufferUse::Access::read);
}

device::BufferUse writes(const Tensor& tensor) {
  return use(tensor, device::BufferUse::Access::write);
}

device::BufferUse changes(const Tensor& tensor) {
  return use(tensor, device::BufferUse::Access::read_write);
}

RowLayout row_layout(const Tensor& tensor) {
  switch (tensor.rank()) {
    case 1:
      return {1, 0, 0};
    case 2:
      return {1, tensor.stride(0), 0};
    case 3:
      return {std::max<int64_t>(tensor.size(1), 1), tensor.stride(0), tensor.stride(1)};
    default:
      REPRISE_ASSERT(tensor.rank() == 4 && tensor.is_dense(),
                     "rows of {} must be dense or of rank 1 to 3",
                     tensor.type().to_string());
      return {1, tensor.size(3), 0};
  }
}

int64_t num_rows(const Tensor& tensor) {
  int64_t rows = 1;
  for (int dim = 0; dim < tensor.rank() - 1; ++dim) rows *= tensor.size(dim);
  return rows;
}

RowTiles row_tiles(int64_t rows, int64_t width, RowCut cut) {
  RowTiles tiles = {.rows = rows, .width = width, .rows_per_block = 1, .columns_per_block = width};
  if (width == 0) return tiles;
  if (width <= kElementsPerBlock) {
    tiles.rows_per_block = kElementsPerBlock / width;
  } else if (cut == RowCut::columns) {
    tiles.columns_per_block = kElementsPerBlock;
  }
  return tiles;
}

uint32_t num_blocks(const RowTiles& tiles) {
  if (tiles.rows == 0 || tiles.width == 0) return 0;
  return static_cast<uint32_t>(ceil_div(tiles.rows, tiles.rows_per_block) *
                               ceil_div(tiles.width, tiles.columns_per_block));
}

void require_dense_rows(const Tensor& tensor, const char* op) {
  REPRISE_ASSERT(
      tensor.rank() == 0 || tensor.size(-1) <= 1 || tensor.stride(tensor.rank() - 1) == 1,
      "{}: the last dimension of {} must be dense",
      op,
      tensor.type().to_string());
}

}  // namespace reprise::kernels
