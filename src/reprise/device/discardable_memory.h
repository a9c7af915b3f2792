#pragma once

#include "reprise/device/device.h"

namespace reprise::device {

/// Implemented by a Device that can give the memory of its buffers back for a while and keep their
/// addresses, which captured graphs hold. discardable_memory() finds it. Thread-safe.
class DiscardableMemory {
 public:
  /// Whether the device of this machine supports it.
  [[nodiscard]] virtual bool can_discard() const noexcept = 0;
  /// `memory` is all of a Buffer of this device. Its content is lost and the memory goes back to
  /// the system; buffers smaller than a page of the device may keep their memory. No work in flight
  /// may use the memory, and no work may use it before restore(). Calling this while the calling
  /// thread captures makes the capture invalid.
  virtual void discard(BufferView memory) noexcept = 0;
  /// Gives a discarded buffer memory again, filled with zeros; a buffer that kept its memory stays
  /// as it is.
  /// \throws OutOfMemory, DeviceError: the buffer stays discarded; CaptureError like
  /// Device::allocate
  virtual void restore(BufferView memory) = 0;

 protected:
  DiscardableMemory() = default;
  DiscardableMemory(const DiscardableMemory&) = default;
  DiscardableMemory& operator=(const DiscardableMemory&) = default;
  ~DiscardableMemory() = default;
};

/// The device's DiscardableMemory, or nullptr when the device cannot give memory back and keep
/// addresses.
[[nodiscard]] inline DiscardableMemory* discardable_memory(Device& device) noexcept {
  auto* memory = dynamic_cast<DiscardableMemory*>(&device);
  return memory != nullptr && memory->can_discard() ? memory : nullptr;
}

}  // namespace reprise::device
