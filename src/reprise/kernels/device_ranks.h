#pragma once

#include <cstddef>
#include <span>

#include "reprise/device/device.h"
#include "reprise/parallel/device_link.h"

namespace reprise::kernels {

/// A group of ranks that exchange tensors between their devices. An exchange is work of a stream:
/// it can be captured, and each replay exchanges anew. All ranks of the group run the same
/// exchanges in the same order, on one stream each.
///
/// The exchanges belong to the thread of the stream. After abort() they do nothing, so a step ends
/// with undefined results, and Communicator::check() names the lost rank. Graphs with exchanges
/// must be destroyed before this object.
class DeviceRanks : public parallel::DeviceLink {
 public:
  [[nodiscard]] virtual int size() const noexcept = 0;
  /// Gathers `bytes` bytes at `mine` from each rank into `all` of every rank, in the order of the
  /// ranks. Both are memory of the device. \throws DeviceError, CaptureError
  virtual void all_gather(device::Stream& stream, const void* mine, void* all, size_t bytes) = 0;
  /// `mine` has a part of `bytes` bytes for each rank. Gathers the parts that all ranks have for
  /// this rank into `all`, in the order of the ranks. \throws DeviceError, CaptureError
  virtual void all_to_all(device::Stream& stream, const void* mine, void* all, size_t bytes) = 0;
};

/// The groups of ranks that the collective ops of an executor may name by their size, in no order.
using DeviceRankGroups = std::span<DeviceRanks* const>;

}  // namespace reprise::kernels
