#pragma once

#include <cuda.h>

#include <string>
#include <thread>
#include <vector>

namespace reprise::device::cuda {

class CudaStream;

/// What the host knows of one capture: who takes part in it and why it became invalid. The driver
/// records the work; this makes sure that what the contract forbids never reaches it, so that the
/// first reason is ours and names the call.
///
/// open -> closed. Shared by the streams in it, observed by events. Used by the capturing thread.
class Capture {
 public:
  explicit Capture(CudaStream& origin) noexcept : origin_(&origin) {}

  [[nodiscard]] bool is_open() const noexcept { return is_open_; }
  [[nodiscard]] bool is_origin(const CudaStream& stream) const noexcept {
    return origin_ == &stream;
  }
  [[nodiscard]] bool belongs_to(std::thread::id thread) const noexcept { return thread_ == thread; }

  /// Keeps the first reason.
  void invalidate(const std::string& reason);
  /// \throws CaptureError with the first reason
  [[noreturn]] void fail(const std::string& reason);
  /// \throws CaptureError with the first reason, if the capture is invalid
  void require_valid() const;

  void join(CudaStream& stream) { joined_.push_back(&stream); }
  /// A joined stream is gone; the driver's stays in the capture until its end.
  void leave(CudaStream& stream, CUstream handle);
  /// All streams become idle. \returns the streams of the driver that nobody owns any more
  [[nodiscard]] std::vector<CUstream> close() noexcept;

 private:
  CudaStream* origin_;  // closes this before it goes
  std::thread::id thread_ = std::this_thread::get_id();
  std::vector<CudaStream*> joined_;  // leave before they go
  std::vector<CUstream> orphans_;
  std::string reason_;
  bool is_valid_ = true;
  bool is_open_ = true;
};

}  // namespace reprise::device::cuda
