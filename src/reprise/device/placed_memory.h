#pragma once

#include "reprise/device/device.h"

namespace reprise::device {

/// A Device implements this if its memory has parts that are near to some workers and far from
/// others (NUMA nodes). Use placed_memory() to find it. Thread-safe.
class PlacedMemory {
 public:
  /// Says that workers will read this buffer in equal parts, in the order of the workers, so that
  /// each part can be placed near its worker. Called before the buffer is first written. A failure
  /// costs only speed.
  virtual void spread_over_workers(BufferView memory) noexcept = 0;

 protected:
  PlacedMemory() = default;
  PlacedMemory(const PlacedMemory&) = default;
  PlacedMemory& operator=(const PlacedMemory&) = default;
  ~PlacedMemory() = default;
};

/// The device's PlacedMemory, or nullptr if all its memory is equally near.
[[nodiscard]] inline PlacedMemory* placed_memory(Device& device) noexcept {
  return dynamic_cast<PlacedMemory*>(&device);
}

}  // namespace reprise::device
