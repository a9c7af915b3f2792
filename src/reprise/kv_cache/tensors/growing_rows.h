#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "reprise/device/device.h"
#include "reprise/device/reservable_memory.h"

namespace reprise::kv_cache {

/// How many rows of a cache have memory, and how many have addresses.
struct RowCounts {
  int64_t with_memory = 0;
  int64_t with_addresses = 0;  // not fewer
};

/// The memory of tensors that all have the same number of rows, in one buffer. Either all rows have
/// memory, or only the first ones, and grow() gives memory to more of them. The addresses of all
/// rows are known from the beginning and never change, so graphs that hold them stay valid.
/// Memory is filled with zeros. Owned by the tensors of a cache.
class GrowingRows {
 public:
  GrowingRows() = default;
  /// `row_bytes`: the bytes of one row of each tensor, not 0. \pre the device is a ReservableMemory
  /// if there are rows without memory \throws OutOfMemory, device::DeviceError
  GrowingRows(std::vector<size_t> row_bytes, RowCounts rows, device::Device& device);

  /// Gives the first `num_rows` rows memory; has no effect if they have memory already. \pre
  /// num_rows <= counts().with_addresses \throws OutOfMemory, device::DeviceError
  void grow(int64_t num_rows);

  [[nodiscard]] std::byte* address(size_t tensor) const noexcept {
    return static_cast<std::byte*>(buffer_.data()) + offsets_[tensor];
  }
  [[nodiscard]] const RowCounts& counts() const noexcept { return rows_; }
  /// All addresses, including those without memory.
  [[nodiscard]] device::BufferView view() const noexcept { return buffer_.view(); }
  /// The bytes that have memory, in whole granules of the device.
  [[nodiscard]] size_t bytes() const noexcept;

  /// The value of bytes() when `num_rows` rows have memory and further rows have only addresses.
  /// `granularity`: of the device; 1: all rows have memory.
  [[nodiscard]] static size_t bytes_of(std::span<const size_t> row_bytes,
                                       int64_t num_rows,
                                       size_t granularity) noexcept;

 private:
  std::vector<size_t> row_bytes_;
  std::vector<size_t> offsets_;    // of the tensors in the buffer
  std::vector<size_t> committed_;  // bytes of each tensor that have memory
  RowCounts rows_;
  device::ReservableMemory* growing_ = nullptr;  // the device; nullptr: all rows have memory
  device::Buffer buffer_;
};

}  // namespace reprise::kv_cache
