#pragma once

#include "reprise/device/device.h"

namespace reprise::device {

/// A Device implements this if it can keep addresses free for a buffer and give them memory later,
/// part by part. Captured graphs hold addresses, so a buffer that grows in place stays valid for
/// them. Use reservable_memory() to find it. Thread-safe.
class ReservableMemory {
 public:
  /// Whether this machine's device supports reserving.
  [[nodiscard]] virtual bool can_reserve() const noexcept = 0;
  /// Memory is given in multiples of this number of bytes. \pre can_reserve()
  [[nodiscard]] virtual size_t granularity() const noexcept = 0;
  /// Reserves addresses for `bytes` bytes, without memory. Nothing else uses these addresses. An
  /// access to them is a fault. The Buffer gives the addresses and all committed memory back.
  /// DiscardableMemory takes and returns the memory of the committed parts. \pre can_reserve()
  /// \throws OutOfMemory when there are no addresses, DeviceError, CaptureError as in
  /// Device::allocate()
  [[nodiscard]] virtual Buffer reserve(size_t bytes) = 0;
  /// Gives a part of a Buffer of reserve() memory that is filled with zeros. `offset` and `bytes`
  /// are multiples of granularity(), and the part has no memory yet.
  /// \throws OutOfMemory or DeviceError: the part still has no memory; CaptureError as in
  /// Device::allocate()
  virtual void commit(BufferView buffer, size_t offset, size_t bytes) = 0;

 protected:
  ReservableMemory() = default;
  ReservableMemory(const ReservableMemory&) = default;
  ReservableMemory& operator=(const ReservableMemory&) = default;
  ~ReservableMemory() = default;
};

/// The device's ReservableMemory, or nullptr if the device cannot reserve addresses.
[[nodiscard]] inline ReservableMemory* reservable_memory(Device& device) noexcept {
  auto* memory = dynamic_cast<ReservableMemory*>(&device);
  return memory != nullptr && memory->can_reserve() ? memory : nullptr;
}

}  // namespace reprise::device
