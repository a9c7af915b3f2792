#pragma once

#include <cuda.h>

#include <string>
#include <thread>
#include <vector>

namespace reprise::device::cuda {

class CudaStream;

/// The host's state of one capture: the streams that take part in it and the reason why it became
/// invalid. The driver records the work. This class refuses calls that the contract forbids before
/// the driver sees them, so that the first error names the call.
///
/// States: open -> closed. The streams in the capture share it and events observe it. Used only by
/// the capturing thread.
class Capture {
 public:
  explicit Capture(CudaStream& origin) noexcept : origin_(&origin) {}

  [[nodiscard]] bool is_open() const noexcept { return is_open_; }
  [[nodiscard]] bool is_origin(const CudaStream& stream) const noexcept {
    return origin_ == &stream;
  }
  [[nodiscard]] bool belongs_to(std::thread::id thread) const noexcept { return thread_ == thread; }

  /// Marks the capture as invalid. Only the first reason is kept.
  void invalidate(const std::string& reason);
  /// \throws CaptureError with the first reason
  [[noreturn]] void fail(const std::string& reason);
  /// \throws CaptureError with the first reason, if the capture is invalid
  void require_valid() const;

  void join(CudaStream& stream) { joined_.push_back(&stream); }
  /// A stream that joined the capture is destroyed; the driver's stream stays in the capture until
  /// its end.
  void leave(CudaStream& stream, CUstream handle);
  /// Makes all streams idle. \returns the driver's streams that no longer have an owner
  [[nodiscard]] std::vector<CUstream> close() noexcept;

 private:
  CudaStream* origin_;  // closes this capture before the stream is destroyed
  std::thread::id thread_ = std::this_thread::get_id();
  std::vector<CudaStream*> joined_;  // each leaves the capture before it is destroyed
  std::vector<CUstream> orphans_;
  std::string reason_;
  bool is_valid_ = true;
  bool is_open_ = true;
};

}  // namespace reprise::device::cuda
