#pragma once

#include <array>
#include <cstddef>

#include "reprise/device/cuda/driver.h"

namespace reprise::device::cuda {

/// Page-locked host memory that a stream's copies from and to the host pass through: the GPU reads
/// one slot while the host fills the next one. Allocated by the first copy. Its user is one thread;
/// large copies to the GPU take up to three more, because one thread copies memory more slowly than
/// the bus does.
class PinnedStaging {
 public:
  explicit PinnedStaging(const Driver& driver) noexcept : driver_(&driver) {}
  PinnedStaging(const PinnedStaging&) = delete;
  PinnedStaging& operator=(const PinnedStaging&) = delete;
  ~PinnedStaging();

  /// The source may be reused after the call returns. \throws DeviceError, OutOfMemory
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
  static constexpr size_t kSharedBytes = kSlots * kSlotBytes;  // of a copy that threads share

  Slot& next_slot();
  void allocate(Slot& slot);
  /// Waits until the slot may be written again.
  void prepare(Slot& slot);
  void upload_part(
      Slot& slot, CUdeviceptr destination, const std::byte* source, size_t bytes, CUstream stream);
  void upload_on_threads(CUdeviceptr destination,
                         const std::byte* source,
                         size_t bytes,
                         CUstream stream);

  const Driver* driver_;  // owned by the device
  std::array<Slot, kSlots> slots_;
  size_t next_ = 0;
};

}  // namespace reprise::device::cuda
