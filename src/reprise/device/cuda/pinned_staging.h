#pragma once

#include <array>
#include <cstddef>

#include "reprise/device/cuda/driver.h"

namespace reprise::device::cuda {

/// Page-locked host memory for a stream's copies from and to the host: the GPU reads one slot while
/// the host fills the next. The first copy allocates it. One thread.
class PinnedStaging {
 public:
  explicit PinnedStaging(const Driver& driver) noexcept : driver_(&driver) {}
  PinnedStaging(const PinnedStaging&) = delete;
  PinnedStaging& operator=(const PinnedStaging&) = delete;
  ~PinnedStaging();

  /// The source may be reused when this returns. \throws DeviceError, OutOfMemory
  void upload(CUdeviceptr destination, const std::byte* source, size_t bytes, CUstream stream);
  /// Waits for the stream and the copy. \throws DeviceError, OutOfMemory
  void download(std::byte* destination, CUdeviceptr source, size_t bytes, CUstream stream);

 private:
  struct Slot {
    std::byte* data = nullptr;
    CUevent read = nullptr;  // recorded after the last copy out of the slot
    bool is_recorded = false;
  };
  // Four slots keep the copy engine busy while weights are loaded; a step's inputs need one.
  static constexpr size_t kSlots = 4;
  static constexpr size_t kSlotBytes = size_t{2} << 20;

  Slot& next_slot();
  void allocate(Slot& slot);

  const Driver* driver_;  // owned by the device
  std::array<Slot, kSlots> slots_;
  size_t next_ = 0;
};

}  // namespace reprise::device::cuda
