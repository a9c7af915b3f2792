#pragma once

#include "reprise/device/device.h"

namespace reprise::device {

/// What a Device is besides when the memory of its buffers can be given back for a while and their
/// addresses, which captured graphs hold, stay. Ask discardable_memory() for it. Thread-safe.
class DiscardableMemory {
 public:
  /// Whether this machine's device can, too.
  [[nodiscard]] virtual bool can_discard() const noexcept = 0;
  /// `memory` is all of a Buffer of this device. What it holds is lost and its memory goes back to
  /// the system; of buffers smaller than what the system takes back it may stay. Nothing in flight
  /// may touch it, and nothing may before restore(). Not while the calling thread captures, which
  /// makes the capture invalid.
  virtual void discard(BufferView memory) noexcept = 0;
  /// Puts memory where it was given back, filled with zeros; buffers that have theirs keep it.
  /// \throws OutOfMemory, DeviceError: it stays discarded; CaptureError as Device::allocate
  virtual void restore(BufferView memory) = 0;

 protected:
  DiscardableMemory() = default;
  DiscardableMemory(const DiscardableMemory&) = default;
  DiscardableMemory& operator=(const DiscardableMemory&) = default;
  ~DiscardableMemory() = default;
};

/// The device's, or nullptr when its memory cannot be given back at addresses that stay.
[[nodiscard]] inline DiscardableMemory* discardable_memory(Device& device) noexcept {
  auto* memory = dynamic_cast<DiscardableMemory*>(&device);
  return memory != nullptr && memory->can_discard() ? memory : nullptr;
}

}  // namespace reprise::device
