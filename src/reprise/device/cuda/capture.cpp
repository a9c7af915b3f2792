#include "reprise/device/cuda/capture.h"

#include <algorithm>
#include <utility>

#include "reprise/device/cuda/cuda_stream.h"
#include "reprise/device/error.h"

namespace reprise::device::cuda {

void Capture::invalidate(const std::string& reason) {
  if (is_valid_) reason_ = reason;
  is_valid_ = false;
}

void Capture::fail(const std::string& reason) {
  invalidate(reason);
  throw CaptureError(reason_);
}

void Capture::require_valid() const {
  if (!is_valid_) throw CaptureError(reason_);
}

void Capture::leave(CudaStream& stream, CUstream handle) {
  std::erase(joined_, &stream);
  orphans_.push_back(handle);
  invalidate("cuda: a stream that had joined the capture was aborted or destroyed");
}

std::vector<CUstream> Capture::close() noexcept {
  is_open_ = false;
  for (CudaStream* stream : joined_) stream->leave_capture();
  joined_.clear();
  origin_->leave_capture();
  return std::exchange(orphans_, {});
}

}  // namespace reprise::device::cuda
