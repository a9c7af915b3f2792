#pragma once

#include "reprise/device/device.h"

namespace reprise::device {

/// A Device implements this if it can return the memory of a buffer to the system and later give
/// the buffer memory at the same address. The addresses must stay because captured graphs hold
/// them. Use discardable_memory() to find it. Thread-safe.
class DiscardableMemory {
 public:
  /// Whether this machine's device supports discarding.
  [[nodiscard]] virtual bool can_discard() const noexcept = 0;
  /// Returns the memory of a Buffer to the system. `memory` must be the whole buffer; its content
  /// is lost. A buffer that is smaller than a page of the device may keep its memory. No work may
  /// use the buffer between this call and restore(), and no work in flight may use it now. If the
  /// calling thread captures, the capture becomes invalid.
  virtual void discard(BufferView memory) noexcept = 0;
  /// Gives a discarded buffer memory again, filled with zeros. A buffer that kept its memory keeps
  /// its content.
  /// \throws OutOfMemory or DeviceError: the buffer stays discarded; CaptureError as in
  /// Device::allocate()
  virtual void restore(BufferView memory) = 0;

 protected:
  DiscardableMemory() = default;
  DiscardableMemory(const DiscardableMemory&) = default;
  DiscardableMemory& operator=(const DiscardableMemory&) = default;
  ~DiscardableMemory() = default;
};

/// The device's DiscardableMemory, or nullptr if the device cannot discard memory.
[[nodiscard]] inline DiscardableMemory* discardable_memory(Device& device) noexcept {
  auto* memory = dynamic_cast<DiscardableMemory*>(&device);
  return memory != nullptr && memory->can_discard() ? memory : nullptr;
}

}  // namespace reprise::device
