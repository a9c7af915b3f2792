#pragma once

#include <mutex>
#include <vector>

#include "reprise/device/cuda/driver.h"

namespace reprise::device::cuda {

/// The streams of the driver in which work of one device can be in flight. Used by calls that take
/// memory or code away from the GPU: cuMemUnmap and cuModuleUnload do not promise to wait for work
/// that uses them. Thread-safe.
class StreamList {
 public:
  explicit StreamList(const Driver& driver) noexcept : driver_(&driver) {}
  StreamList(const StreamList&) = delete;
  StreamList& operator=(const StreamList&) = delete;

  void add(CUstream stream);
  /// The stream's work is done or belongs to an abandoned capture.
  void remove(CUstream stream) noexcept;
  /// Waits for all work that was submitted before, also while the calling thread captures. Streams
  /// that capture are left out, because waiting would end their capture. Ignores errors of that
  /// work: they are sticky, and the next call that can throw reports them.
  void synchronize() const noexcept;

 private:
  const Driver* driver_;  // owned by the device
  mutable std::mutex mutex_;
  std::vector<CUstream> streams_;
};

}  // namespace reprise::device::cuda
