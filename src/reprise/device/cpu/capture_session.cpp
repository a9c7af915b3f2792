#include "reprise/device/cpu/capture_session.h"

#include <fmt/format.h>

#include <algorithm>

#include "reprise/device/cpu/cpu_stream.h"
#include "reprise/device/error.h"

namespace reprise::device {

CaptureSession::CaptureSession(CpuStream& origin)
    : thread_(std::this_thread::get_id()), streams_{&origin}, clocks_{CaptureClock{0}} {}

void CaptureSession::record(size_t index, const Launch& launch) {
  require_valid();
  recorder_.record(launch);
  ++clocks_[index][index];
}

void CaptureSession::order_after(size_t index, const CaptureClock& point) {
  CaptureClock& clock = clocks_[index];
  clock.resize(std::max(clock.size(), point.size()));
  for (size_t i = 0; i < point.size(); ++i) clock[i] = std::max(clock[i], point[i]);
}

size_t CaptureSession::join(CpuStream& stream, const CaptureClock& point) {
  const size_t index = streams_.size();
  streams_.push_back(&stream);
  clocks_.emplace_back(index + 1);
  order_after(index, point);
  return index;
}

void CaptureSession::leave(CpuStream& stream) noexcept {
  std::ranges::replace(streams_, &stream, static_cast<CpuStream*>(nullptr));
  invalidate("a stream that had joined the capture was destroyed or aborted before its end");
}

const std::string& CaptureSession::invalidate(std::string reason) {
  if (reason_.empty()) reason_ = std::move(reason);
  return reason_;
}

void CaptureSession::fail(std::string reason) { throw CaptureError(invalidate(std::move(reason))); }

void CaptureSession::require_valid() const {
  if (!reason_.empty()) throw CaptureError(reason_);
}

void CaptureSession::close() noexcept {
  is_open_ = false;
  for (CpuStream* stream : streams_) {
    if (stream != nullptr) stream->leave_capture();
  }
  streams_.clear();
}

CommandBlock CaptureSession::take_commands() {
  require_valid();
  const CaptureClock& end = clocks_.front();
  for (size_t i = 1; i < clocks_.size(); ++i) {
    const uint32_t ordered = i < end.size() ? end[i] : 0;
    if (ordered < clocks_[i][i]) {
      fail(fmt::format(
          "joined stream {} has {} captured launches of which the origin waits for {}: record an "
          "event behind its last launch and let the origin wait for it before the capture ends",
          i,
          clocks_[i][i],
          ordered));
    }
  }
  return std::move(recorder_).finish();
}

}  // namespace reprise::device
