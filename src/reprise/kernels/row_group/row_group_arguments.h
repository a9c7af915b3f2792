#pragma once

#include <cstddef>
#include <cstdint>

#include "reprise/device/kernel.h"

namespace reprise::kernels {

/// One tensor of a row group's launch, of rank 1 to 3 with a dense last dimension.
struct RowGroupOperand {
  void* data;
  int64_t rows;          // size of dimension 0, the limit of an index into a table
  int64_t row_stride;    // elements between neighbours of dimension 0
  int64_t inner_stride;  // elements between neighbours of dimension 1 of a tensor of rank 3, else 0
};

inline constexpr size_t kMaxRowGroupOperands = 15;

/// The arguments of every generated row kernel: the binary interface between engines and code that
/// may come from a cache. A change here needs a new kRowGroupAbi.
///
/// Row r of the launch is row r of every operand, except tables that are looked up by index and
/// parameters that have no rows. Block b covers rows [b * rows_per_block, (b + 1) *
/// rows_per_block).
struct alignas(16) RowGroupArguments {
  int64_t rows;
  int64_t rows_per_block;
  RowGroupOperand operands[kMaxRowGroupOperands];  // inputs in order, then results in order
};
static_assert(sizeof(RowGroupArguments) <= device::kMaxLaunchArgumentBytes);

/// The number of threads in a block of every generated kernel on a GPU.
inline constexpr int kRowGroupThreads = 256;

inline constexpr int kRowGroupAbi = 1;

}  // namespace reprise::kernels
