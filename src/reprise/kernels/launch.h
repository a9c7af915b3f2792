#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "reprise/device/device.h"
#include "reprise/kernels/rows.h"
#include "reprise/tensor/tensor.h"

/// What the launchers of all ops share: turning tensors into arguments, buffer uses and a Launch.
namespace reprise::kernels {

/// The whole stretch of memory of a tensor; an undefined one uses nothing.
[[nodiscard]] device::BufferUse reads(const Tensor& tensor);
[[nodiscard]] device::BufferUse writes(const Tensor& tensor);

/// Row starts of a tensor of rank 1 to 3 whose last dimension is dense.
[[nodiscard]] RowLayout row_layout(const Tensor& tensor);
/// Rows of a tensor: the product of all dimensions but the last.
[[nodiscard]] int64_t num_rows(const Tensor& tensor);
/// Cuts rows of elementwise or row-wise work into blocks of about `elements_per_block`; rows are
/// cut only when `may_cut_rows`.
enum class RowCut : uint8_t { whole_rows, columns };
[[nodiscard]] RowTiles row_tiles(int64_t rows, int64_t width, RowCut cut);
[[nodiscard]] uint32_t num_blocks(const RowTiles& tiles);

/// \pre the last dimension is dense
void require_dense_rows(const Tensor& tensor, const char* op);

/// Launches nothing, and returns false, when the grid is empty.
template <typename Arguments, size_t kUses>
bool launch(device::Stream& stream,
            const device::Kernel& kernel,
            uint32_t blocks,
            const Arguments& arguments,
            const std::array<device::BufferUse, kUses>& uses) {
  static_assert(std::is_trivially_copyable_v<Arguments>);
  static_assert(sizeof(Arguments) <= device::kMaxLaunchArgumentBytes && alignof(Arguments) == 16);
  if (blocks == 0) return false;
  // Optional arguments left out are no uses.
  std::array<device::BufferUse, kUses> used;
  size_t num_used = 0;
  for (const device::BufferUse& use : uses) {
    if (use.bytes > 0) used[num_used++] = use;
  }
  stream.launch({.kernel = &kernel,
                 .num_blocks = blocks,
                 .args = std::as_bytes(std::span(&arguments, 1)),
                 .uses = std::span(used).first(num_used)});
  return true;
}

}  // namespace reprise::kernels
