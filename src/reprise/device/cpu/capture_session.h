#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "reprise/device/cpu/command_block.h"

namespace reprise::device {

class CpuStream;

/// A point in a capture, given by the work that is known to come before it: entry i is the number
/// of operations of stream i.
using CaptureClock = std::vector<uint32_t>;

/// One capture, from begin_capture() to end_capture() on the stream where it began (the origin).
/// All streams that take part share it, and events that are recorded in it observe it. Belongs to
/// the capturing thread.
///
/// Commands are stored in the order in which the host issued them, whatever their stream. A stream
/// can wait only for an event that was recorded before, so this order satisfies all waits. A replay
/// in this order, with barriers between conflicting commands, is therefore correct.
class CaptureSession {
 public:
  explicit CaptureSession(CpuStream& origin);

  [[nodiscard]] bool is_origin(const CpuStream& stream) const noexcept {
    return streams_.front() == &stream;
  }
  [[nodiscard]] bool belongs_to(std::thread::id thread) const noexcept { return thread_ == thread; }

  /// Records a launch of stream `index`. \throws CaptureError if the capture is already invalid
  void record(size_t index, const Launch& launch);

  [[nodiscard]] const CaptureClock& clock(size_t index) const noexcept { return clocks_[index]; }
  /// Makes later work of stream `index` come after the point.
  void order_after(size_t index, const CaptureClock& point);
  /// Adds a stream, whose work comes after the point. Returns the index of the stream.
  [[nodiscard]] size_t join(CpuStream& stream, const CaptureClock& point);
  /// Called when a joined stream aborts or is destroyed: its work is lost, so the capture becomes
  /// invalid.
  void leave(CpuStream& stream) noexcept;

  /// Makes the capture invalid. Keeps the first reason and returns it.
  const std::string& invalidate(std::string reason);
  [[noreturn]] void fail(std::string reason);
  /// \throws CaptureError with the first reason, if there is one
  void require_valid() const;

  /// Detaches all streams. Later only events use the session, to see that it is over.
  void close() noexcept;
  [[nodiscard]] bool is_open() const noexcept { return is_open_; }

  /// Returns the captured commands. \throws CaptureError if the capture is invalid, or if the
  /// origin does not wait for all work of the joined streams
  [[nodiscard]] CommandBlock take_commands();
  /// The memory that these commands use. \pre called once, before take_commands()
  [[nodiscard]] LaunchUses take_uses() { return recorder_.take_uses(); }

 private:
  std::thread::id thread_;
  std::vector<CpuStream*> streams_;  // the origin first; nullptr: the stream has left the capture
  std::vector<CaptureClock> clocks_;
  CommandRecorder recorder_;
  std::string reason_;  // empty = valid
  bool is_open_ = true;
};

}  // namespace reprise::device
