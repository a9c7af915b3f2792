#pragma once

#include <string>

#include "reprise/base/error.h"

namespace reprise::device {

/// A call on a device failed. If is_sticky(), the device context is lost: all data on the device is
/// unreliable, and the engine must restart. Otherwise only this call failed.
class DeviceError : public Error {
 public:
  enum class Severity { transient, sticky };

  explicit DeviceError(const std::string& message, Severity severity = Severity::transient)
      : Error(message), severity_(severity) {}

  [[nodiscard]] bool is_sticky() const noexcept { return severity_ == Severity::sticky; }

 private:
  Severity severity_;
};

/// A stream that captures was asked for something that cannot be captured: to synchronise, to
/// allocate outside of the pool, to read a device value on the host, or to wait for work outside of
/// the capture. The capture is then invalid, and ending it throws the same reason again. Eager work
/// remains possible.
class CaptureError : public DeviceError {
 public:
  explicit CaptureError(const std::string& message) : DeviceError(message) {}
};

}  // namespace reprise::device
