#include "reprise/kernels/cuda/linear_launch.h"

#include <algorithm>
#include <limits>

#include "reprise/base/assert.h"
#include "reprise/kernels/cuda/linear_arguments.h"
#include "reprise/kernels/launch.h"

namespace reprise::kernels::cuda {
namespace {

bool is_vector_aligned(const void* address) {
  return reinterpret_cast<uintptr_t>(address) % 16 == 0;
}

bool fits_fragments(const Tensor& x, const Tensor& weight) {
  return x.size(1) % 8 == 0 && x.stride(0) % 8 == 0 && is_vector_aligned(x.data()) &&
         is_vector_aligned(weight.data());
}

struct Choice {
  const device::Kernel* kernel = nullptr;
  uint32_t num_blocks = 0;
};

uint32_t blocks_of(int64_t tiles, int num_multiprocessors) {
  return static_cast<uint32_t>(std::min(tiles, int64_t{kBlocksOfProducts} * num_multiprocessors));
}

/// For up to eight rows, x costs little, and the number of columns decides the columns of a tile.
Choice choose_for_few_rows(const LinearKernels& kernels, int64_t columns, int num_multiprocessors) {
  const bool is_narrow = columns <= kNarrowColumns && kernels.of_8_columns.for_8_rows != nullptr;
  const FragmentKernels& fragments = is_narrow ? kernels.of_8_columns : kernels.of_16_columns;
  const int64_t tile_columns = is_narrow ? kFragmentColumns : kMostTileColumns;
  return {fragments.for_8_rows, blocks_of(ceil_div(columns, tile_columns), num_multiprocessors)};
}

/// With more rows, each tile reads its columns of the weight and all rows of x. Wide tiles read x
/// less often, and narrow tiles keep more multiprocessors busy, so the tiles are those with which
/// the busiest multiprocessor reads least.
Choice choose_for_many_rows(const LinearKernels& kernels,
                            int64_t rows,
                            int64_t columns,
                            int num_multiprocessors) {
  Choice choice;
  int64_t least = std::numeric_limits<int64_t>::max();
  const auto consider = [&](const device::Kernel* kernel, int64_t tile_columns) {
    const int64_t tiles = ceil_div(columns, tile_columns);
    const int64_t read = ceil_div(tiles, num_multiprocessors) *
                         (tile_columns + std::min<int64_t>(rows, kMostTileRows));
    if (kernel == nullptr || read >= least) return;
    least = read;
    choice = {kernel, blocks_of(tiles, num_multiprocessors)};
  };
  consider(kernels.of_8_columns.for_32_rows, kFragmentColumns);
  consider(kernels.of_16_columns.for_32_rows, kMostTileColumns);
  consider(kernels.of_32_columns.for_32_rows, kWideTileColumns);
  return choice;
}

/// nullptr: there is no kernel with these tiles.
const device::Kernel* kernel_of_tile(const LinearKernels& kernels, int64_t rows, TileChoice tiles) {
  if (tiles.is_streamed) {
    if (rows > kFragmentRows) return nullptr;
    return tiles.columns == kFragmentColumns   ? kernels.streamed.of_8_weights
           : tiles.columns == kMostTileColumns ? kernels.streamed.of_16_weights
                                               : nullptr;
  }
  const auto of_rows = [rows](const FragmentKernels& fragments) {
    return rows <= kFragmentRows ? fragments.for_8_rows : fragments.for_32_rows;
  };
  switch (tiles.columns) {
    case kFragmentColumns:
      return of_rows(kernels.of_8_columns);
    case kMostTileColumns:
      return of_rows(kernels.of_16_columns);
    case kWideTileColumns:
      return of_rows(kernels.of_32_columns);
    default:
      return nullptr;
  }
}

/// The kernel without a table of choices: one whose weights arrive by each lane's own copies.
Choice choose_by_rule(const LinearKernels& kernels,
                      int64_t rows,
                      int64_t columns,
                      int num_multiprocessors) {
  return rows <= kFragmentRows ? choose_for_few_rows(kernels, columns, num_multiprocessors)
                               : choose_for_many_rows(kernels, rows, columns, num_multiprocessors);
}

/// Streamed tiles with which the busiest multiprocessor, with one block, reads least. Of equal
/// tiles, those of 16 rows of the weight add up fewer sums.
int32_t streamed_tile(int64_t weight_rows, int num_multiprocessors) {
  const auto most_read = [&](int64_t tile) {
    return ceil_div(ceil_div(weight_rows, tile), num_multiprocessors) * tile;
  };
  return most_read(kFragmentColumns) < most_read(kMostTileColumns) ? kFragmentColumns
                                                                   : kMostTileColumns;
}

/// No choice changes a result. `columns`: of the result; `weight_rows`: as many, or twice as many.
Choice choose_fragments(const LinearKernels& kernels,
                        int64_t rows,
                        int64_t columns,
                        int64_t weight_rows,
                        int num_multiprocessors,
                        TileChoice tiles) {
  if (rows == 0) return {kernels.of_16_columns.for_8_rows, 0};
  if (tiles.is_streamed && tiles.columns == 0) {
    tiles.columns = streamed_tile(weight_rows, num_multiprocessors);
  }
  const device::Kernel* kernel = kernel_of_tile(kernels, rows, tiles);
  if (kernel == nullptr) return choose_by_rule(kernels, rows, columns, num_multiprocessors);
  if (!tiles.is_streamed) {
    return {kernel, blocks_of(ceil_div(columns, int64_t{tiles.columns}), num_multiprocessors)};
  }
  const int64_t tile_columns = tiles.columns * columns / weight_rows;
  const int64_t num_tiles = ceil_div(columns, tile_columns);
  return {kernel, static_cast<uint32_t>(std::min<int64_t>(num_tiles, num_multiprocessors))};
}

/// Also true if there is no norm.
bool can_take(const NormCall& norm, const Tensor& x, const Tensor& weight) {
  return !norm.weight.defined() || can_norm_first(x, weight, norm.weight);
}

LinearArguments linear_arguments(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  require_dense_rows(x, "linear");
  REPRISE_ASSERT(weight.is_dense(), "linear: the weight must be dense");
  return {.x = x.data(),
          .weight = weight.data(),
          .bias = bias.data(),
          .out = nullptr,
          .num_rows = nullptr,
          .x_stride = x.stride(0),
          .rows = x.size(0),
          .columns = weight.size(0),
          .depth = x.size(1),
          .rows_per_block = 0,
          .columns_per_block = 0};
}

}  // namespace

bool can_norm_first(const Tensor& x, const Tensor& weight, const Tensor& norm) {
  return linear_kernels(x.dtype()).of_16_columns.for_8_rows != nullptr &&
         x.size(0) <= kMostNormedRows && fits_fragments(x, weight) &&
         is_vector_aligned(norm.data());
}

std::vector<TileChoice> tile_choices(const LinearKernels& kernels,
                                     const Tensor& x,
                                     const Tensor& weight,
                                     bool has_streamed_kernels) {
  if (!fits_fragments(x, weight)) return {};
  std::vector<TileChoice> choices;
  for (const bool is_streamed : {false, true}) {
    if (is_streamed && !has_streamed_kernels) break;
    for (const int32_t columns : {kFragmentColumns, kMostTileColumns, kWideTileColumns}) {
      const TileChoice tiles{.columns = columns, .is_streamed = is_streamed};
      if (kernel_of_tile(kernels, x.size(0), tiles) != nullptr) choices.push_back(tiles);
    }
  }
  return choices;
}

bool launch_linear(device::Stream& stream,
                   const LinearKernels& kernels,
                   int num_multiprocessors,
                   const LinearCall& call) {
  REPRISE_ASSERT(call.out.is_dense(), "linear: out must be dense");
  REPRISE_ASSERT(can_take(call.norm, call.x, call.weight),
                 "linear: no kernel can compute the norm of these rows before the product");
  CudaLinearArguments arguments = {.product = linear_arguments(call.x, call.weight, call.bias),
                                   .to = {},
                                   .norm = call.norm.weight.data(),
                                   .epsilon = call.norm.epsilon};
  LinearArguments& product = arguments.product;
  product.out = call.out.data();
  product.num_rows = call.num_rows.defined() ? call.num_rows.data_as<int32_t>() : nullptr;
  product.columns = call.out.size(1);
  product.residual = call.residual.data();
  product.residual_stride = call.residual.defined() ? call.residual.stride(0) : 0;
  Choice choice{kernels.dots,
                static_cast<uint32_t>(ceil_div(product.rows, kDotRows) *
                                      ceil_div(product.columns, kDotColumns))};
  if (kernels.of_16_columns.for_8_rows != nullptr && fits_fragments(call.x, call.weight)) {
    choice = choose_fragments(kernels,
                              product.rows,
                              product.columns,
                              call.weight.size(0),
                              num_multiprocessors,
                              call.tiles);
  }
  return launch(stream,
                *choice.kernel,
                choice.num_blocks,
                arguments,
                std::array{writes(call.out),
                           reads(call.x),
                           reads(call.weight),
                           reads(call.bias),
                           reads(call.residual),
                           reads(call.num_rows),
                           reads(call.norm.weight)});
}

bool launch_linear_rope_kv_write(device::Stream& stream,
                                 int num_multiprocessors,
                                 const Tensor& x,
                                 const Tensor& weight,
                                 const Tensor& bias,
                                 const RopeAndCacheCall& call,
                                 const NormCall& norm,
                                 TileChoice tiles) {
  LinearKernels kernels = linear_rope_kv_write_kernels(x.dtype());
  // The halves of a tile are the halves of a head.
  if (call.q_out.size(2) % kWideTileColumns != 0) kernels.of_32_columns = {};
  const bool can = kernels.of_16_columns.for_8_rows != nullptr && fits_fragments(x, weight) &&
                   !call.q_norm.defined() && !call.k_norm.defined() && x.size(0) > 0 &&
                   x.size(0) <= kMostTileRows && call.q_out.size(2) % kMostTileColumns == 0 &&
                   can_take(norm, x, weight);
  if (!can) return false;
  const CudaLinearArguments arguments = {.product = linear_arguments(x, weight, bias),
                                         .to = rope_and_cache(call),
                                         .norm = norm.weight.data(),
                                         .epsilon = norm.epsilon};
  const Choice choice = choose_fragments(
      kernels, x.size(0), weight.size(0), weight.size(0), num_multiprocessors, tiles);
  // Only the device knows which slots are written, so the launch declares a write of both whole
  // caches.
  return launch(stream,
                *choice.kernel,
                choice.num_blocks,
                arguments,
                std::array{writes(call.q_out),
                           writes(call.key_cache),
                           writes(call.value_cache),
                           reads(x),
                           reads(weight),
                           reads(bias),
                           reads(call.positions),
                           reads(call.cos_sin),
                           reads(call.slot_mapping),
                           reads(norm.weight)});
}

}  // namespace reprise::kernels::cuda
