#pragma once

#include "reprise/device/kernel.h"

namespace reprise::device {

/// What a Device is besides when its memory can be given back for a while and keep its addresses, which
/// captured graphs hold. Ask for it by dynamic_cast.
class DiscardableMemory {
 public:
  /// `memory` is all of a Buffer of this device. What it holds is lost and its pages go back to the
  /// system; when it is touched again it is zero-filled, at the same address. Nothing in flight may
  /// touch it.
  virtual void discard(BufferView memory) noexcept = 0;

 protected:
  DiscardableMemory() = default;
  DiscardableMemory(const DiscardableMemory&) = default;
  DiscardableMemory& operator=(const DiscardableMemory&) = default;
  ~DiscardableMemory() = default;
};

}  // namespace reprise::device
