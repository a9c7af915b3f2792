#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "reprise/device/cpu/command_block.h"

namespace reprise::device {

class CpuStream;

/// The work that is known to come before a point of a capture: entry i counts the operations of
/// stream i.
using CaptureClock = std::vector<uint32_t>;

/// One capture: from begin_capture on its origin stream to the end on the same stream. Shared by
/// the streams that take part, observed by the events recorded in it. Belongs to the capturing
/// thread.
///
/// Commands are stored in the order in which the host issued them, on any stream. That order
/// respects every event, so the sequence and barriers between conflicting commands are enough for a
/// correct replay.
class CaptureSession {
 public:
  explicit CaptureSession(CpuStream& origin);

  [[nodiscard]] bool is_origin(const CpuStream& stream) const noexcept {
    return streams_.front() == &stream;
  }
  [[nodiscard]] bool belongs_to(std::thread::id thread) const noexcept { return thread_ == thread; }

  /// Records for stream `index`. \throws CaptureError when the capture is invalid already
  void record(size_t index, const Launch& launch);

  [[nodiscard]] const CaptureClock& clock(size_t index) const noexcept { return clocks_[index]; }
  /// Orders later work of stream `index` after the point.
  void order_after(size_t index, const CaptureClock& point);
  /// Adds a stream to the capture after the point. Returns its index.
  [[nodiscard]] size_t join(CpuStream& stream, const CaptureClock& point);
  /// A joined stream is destroyed or aborts: the capture loses its work and becomes invalid.
  void leave(CpuStream& stream) noexcept;

  /// Keeps the first reason and returns it.
  const std::string& invalidate(std::string reason);
  [[noreturn]] void fail(std::string reason);
  /// \throws CaptureError with the first reason, if there is one
  void require_valid() const;

  /// Detaches all streams. Afterwards the session only serves events, which see that it is over.
  void close() noexcept;
  [[nodiscard]] bool is_open() const noexcept { return is_open_; }

  /// \throws CaptureError when invalid, or when work of a joined stream is not ordered before the
  /// end of the origin.
  [[nodiscard]] CommandBlock take_commands();

 private:
  std::thread::id thread_;
  std::vector<CpuStream*> streams_;  // the origin first; nullptr = the stream has left
  std::vector<CaptureClock> clocks_;
  CommandRecorder recorder_;
  std::string reason_;  // empty = valid
  bool is_open_ = true;
};

}  // namespace reprise::device
