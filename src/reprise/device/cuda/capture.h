#pragma once

#include <cuda.h>

#include <string>
#include <thread>
#include <vector>

#include "reprise/device/cuda/captured_launches.h"

namespace reprise::device::cuda {

class CudaStream;

/// The host's record of one capture: the streams that take part, and the reason why it became
/// invalid. The driver records the work. This class keeps calls that the contract forbids away from
/// the driver, so that the first reason is the engine's own and names the call.
///
/// States: open -> closed. Shared by the streams in the capture, observed by events. Used by the
/// capturing thread.
class Capture {
 public:
  explicit Capture(CudaStream& origin) noexcept : origin_(&origin) {}

  [[nodiscard]] bool is_open() const noexcept { return is_open_; }
  [[nodiscard]] bool is_origin(const CudaStream& stream) const noexcept {
    return origin_ == &stream;
  }
  [[nodiscard]] bool belongs_to(std::thread::id thread) const noexcept { return thread_ == thread; }

  /// Makes the capture invalid; the first reason is kept.
  void invalidate(const std::string& reason);
  /// \throws CaptureError with the first reason
  [[noreturn]] void fail(const std::string& reason);
  /// \throws CaptureError with the first reason, if the capture is invalid
  void require_valid() const;

  [[nodiscard]] CapturedLaunches& launches() noexcept { return launches_; }

  void join(CudaStream& stream) { joined_.push_back(&stream); }
  /// A joined stream was destroyed; the driver's stream stays in the capture until the capture
  /// ends.
  void leave(CudaStream& stream, CUstream handle);
  /// Makes all streams idle. \returns the streams of the driver that have no owner any more
  [[nodiscard]] std::vector<CUstream> close() noexcept;

 private:
  CudaStream* origin_;  // the origin closes this capture before it is destroyed
  std::thread::id thread_ = std::this_thread::get_id();
  std::vector<CudaStream*> joined_;  // joined streams leave before they are destroyed
  std::vector<CUstream> orphans_;
  CapturedLaunches launches_;
  std::string reason_;
  bool is_valid_ = true;
  bool is_open_ = true;
};

}  // namespace reprise::device::cuda
