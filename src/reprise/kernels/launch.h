#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "reprise/device/device.h"
#include "reprise/kernels/rows.h"
#include "reprise/tensor/tensor.h"

/// Functions that the launch functions of all ops share: they turn tensors into arguments, buffer
/// uses and a Launch.
namespace reprise::kernels {

/// A use of the memory from the first to the last element of a tensor. An undefined tensor uses
/// nothing.
[[nodiscard]] device::BufferUse reads(const Tensor& tensor);
[[nodiscard]] device::BufferUse writes(const Tensor& tensor);
/// Declares that the launch reads and writes the memory.
[[nodiscard]] device::BufferUse changes(const Tensor& tensor);

/// The starts of the rows of a tensor of rank 1 to 3 whose last dimension is dense.
[[nodiscard]] RowLayout row_layout(const Tensor& tensor);
/// The number of rows of a tensor: the product of all dimensions except the last one.
[[nodiscard]] int64_t num_rows(const Tensor& tensor);
/// Elementwise and row-wise work is divided into blocks of about this many elements. The number is
/// so small that even a few rows are spread over many cores, and so large that the work of a block
/// (about a microsecond) takes longer than its handover to a thread. A grid of one block needs no
/// barrier.
inline constexpr int64_t kElementsPerBlock = 4096;

/// Divides rows into blocks of about kElementsPerBlock elements. Rows are cut only with
/// RowCut::columns.
enum class RowCut : uint8_t { whole_rows, columns };
[[nodiscard]] RowTiles row_tiles(int64_t rows, int64_t width, RowCut cut);
[[nodiscard]] uint32_t num_blocks(const RowTiles& tiles);

/// \pre the last dimension is dense
void require_dense_rows(const Tensor& tensor, const char* op);

/// Sets the padding bytes between and after the members to zeros, as far as the compiler supports
/// it. Otherwise they hold bytes of earlier calls, and a graph stores them, so equal launches would
/// differ when two captures are compared (--verify-graphs=strict).
template <typename Arguments>
void clear_padding([[maybe_unused]] Arguments& arguments) noexcept {
#ifdef __has_builtin
#if __has_builtin(__builtin_clear_padding)
  __builtin_clear_padding(&arguments);
#endif
#endif
}

/// Returns false and launches nothing if the grid is empty.
template <typename Arguments, size_t kUses>
bool launch(device::Stream& stream,
            const device::Kernel& kernel,
            uint32_t blocks,
            const Arguments& arguments,
            const std::array<device::BufferUse, kUses>& uses) {
  static_assert(std::is_trivially_copyable_v<Arguments>);
  static_assert(sizeof(Arguments) <= device::kMaxLaunchArgumentBytes && alignof(Arguments) == 16);
  if (blocks == 0) return false;
  // Optional operands that are left out are not uses.
  std::array<device::BufferUse, kUses> used;
  size_t num_used = 0;
  for (const device::BufferUse& use : uses) {
    if (use.bytes > 0) used[num_used++] = use;
  }
  const auto submit = [&](const Arguments& submitted) {
    stream.launch({.kernel = &kernel,
                   .num_blocks = blocks,
                   .args = std::as_bytes(std::span(&submitted, 1)),
                   .uses = std::span(used).first(num_used)});
  };
  if (stream.is_capturing()) {
    Arguments recorded = arguments;
    clear_padding(recorded);
    submit(recorded);
  } else {
    submit(arguments);
  }
  return true;
}

}  // namespace reprise::kernels
