#pragma once

#include <string>

#include "reprise/base/error.h"

namespace reprise::device {

/// A call on a device failed. `is_sticky()`: the device context is lost, all data on the device is
/// unreliable and the engine must restart; otherwise only this call failed.
class DeviceError : public Error {
 public:
  enum class Severity { transient, sticky };

  explicit DeviceError(const std::string& message, Severity severity = Severity::transient)
      : Error(message), severity_(severity) {}

  [[nodiscard]] bool is_sticky() const noexcept { return severity_ == Severity::sticky; }

 private:
  Severity severity_;
};

/// A capturing stream got a request that cannot be recorded (synchronise, allocate outside the
/// pool, read a device value on the host, wait for work outside the capture). From then on the
/// capture is invalid, and finishing it throws the same reason again; eager work stays possible.
class CaptureError : public DeviceError {
 public:
  explicit CaptureError(const std::string& message) : DeviceError(message) {}
};

}  // namespace reprise::device
