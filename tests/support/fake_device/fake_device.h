#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "reprise/device/device.h"

namespace reprise::device {

/// A device for tests of the layers above it. It runs launches inline on a real CPU device with one
/// thread, so results are right. It also logs every call by name, fails the k-th call, and has a
/// virtual clock that each launch advances.
///
/// Calls that count, by the names in the log: allocate, pool_grow (a pool takes memory from the
/// device), launch <kernel>, copy, fill, copy_from_host, copy_to_host, record, wait, synchronize,
/// event_synchronize, begin_capture, end_capture, instantiate, graph_launch. A launch of no blocks
/// is not a call. The counting is thread-safe, call_log() is not.
class FakeDevice : public Device {
 public:
  /// Numbers the following calls 1, 2, ...; call number `k` throws DeviceError with this severity,
  /// as a real device would. During a capture this invalidates the capture. After a sticky failure
  /// every call fails until the next fail_call(), which stands for a restart. 0 = no call fails.
  virtual void fail_call(uint64_t k,
                         DeviceError::Severity severity = DeviceError::Severity::transient) = 0;
  /// Calls seen since the last fail_call(), so a test can loop until its scenario passes.
  [[nodiscard]] virtual uint64_t num_calls() const noexcept = 0;
  /// Names of the calls since the last clear: "launch rms_norm_bf16", "graph_launch", "allocate".
  [[nodiscard]] virtual const std::vector<std::string>& call_log() const noexcept = 0;
  virtual void clear_call_log() = 0;
  /// A virtual clock in nanoseconds: +1000 per submission (LaunchCounters::submissions).
  [[nodiscard]] virtual uint64_t virtual_time_ns() const noexcept = 0;
};

[[nodiscard]] std::unique_ptr<FakeDevice> create_fake_device();

}  // namespace reprise::device
