#pragma once

#include <string>

namespace reprise::parallel {

/// Connections between the devices of ranks, beside the messages between the processes. A device
/// that waits on them for a lost rank waits for ever, so RankLink ends them when a rank is lost.
///
/// Both functions may be called by any thread, also while another thread waits for the device.
class DeviceLink {
 public:
  virtual ~DeviceLink() = default;
  /// A sentence about an error that the connections have noticed; empty if there is none.
  [[nodiscard]] virtual std::string find_failure() noexcept = 0;
  /// Ends all work that waits for another rank, and the connections. Results of this work are
  /// undefined. Later exchanges do nothing.
  virtual void abort() noexcept = 0;

 protected:
  DeviceLink() = default;
  DeviceLink(const DeviceLink&) = default;
  DeviceLink& operator=(const DeviceLink&) = default;
};

}  // namespace reprise::parallel
