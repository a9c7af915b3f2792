#include "reprise/device/cuda/stream_list.h"

#include <algorithm>

namespace reprise::device::cuda {

void StreamList::add(CUstream stream) {
  const std::lock_guard lock(mutex_);
  streams_.push_back(stream);
}

void StreamList::remove(CUstream stream) noexcept {
  const std::lock_guard lock(mutex_);
  std::erase(streams_, stream);
}

void StreamList::synchronize() const noexcept {
  const DriverApi& api = driver_->bound_noexcept();
  const RelaxedCaptureScope allowed(api);
  const std::lock_guard lock(mutex_);
  for (CUstream stream : streams_) {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    (void)api.stream_is_capturing(stream, &status);
    if (status == CU_STREAM_CAPTURE_STATUS_NONE) (void)api.stream_synchronize(stream);
  }
}

}  // namespace reprise::device::cuda
