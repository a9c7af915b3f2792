#pragma once

#include "reprise/device/cuda/cuda_device_impl.h"
#include "reprise/device/cuda/cuda_stream.h"

namespace reprise::device::cuda {

/// Measures how long work of a stream takes by the GPU's own clock, which has a resolution of about
/// 0.5 us. Belongs to one thread. start(), the work and stop() may follow each other without a
/// wait, so the time has no share of the host. May not be used in a capture.
class CudaTimer {
 public:
  /// \throws DeviceError
  explicit CudaTimer(CudaDevice& device);
  CudaTimer(const CudaTimer&) = delete;
  CudaTimer& operator=(const CudaTimer&) = delete;
  ~CudaTimer();

  /// \throws DeviceError
  void start(CudaStream& stream) { record(stream, begin_); }
  void stop(CudaStream& stream) { record(stream, end_); }
  /// Waits for the work between start() and stop(). \throws DeviceError
  [[nodiscard]] double microseconds() const;

 private:
  void record(CudaStream& stream, CUevent event) const;

  const Driver* driver_;  // the device's
  CUevent begin_ = nullptr;
  CUevent end_ = nullptr;
};

}  // namespace reprise::device::cuda
