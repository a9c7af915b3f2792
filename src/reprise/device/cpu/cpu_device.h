#pragma once

#include <memory>

#include "reprise/device/device.h"

namespace reprise::device {

struct CpuDeviceOptions {
  /// Workers including the calling thread; 0 = one per core that this process may use (affinity
  /// mask and container quota). A larger number is reduced to those cores, because extra threads
  /// would only wait for each other.
  int num_threads = 0;
  /// Pins worker i > 0 to the i-th core of the process's affinity mask. Worker 0 is the thread that
  /// launches; it belongs to the caller and is never pinned.
  bool pin_threads = true;
  /// How long an idle worker spins, in microseconds. Then it yields for half a millisecond, so that
  /// the gap between two steps costs no wake-up and other processes can use the core, and then it
  /// sleeps.
  int spin_us = 50;
  /// Keeps num_threads above the number of cores: for tests of many workers on small machines.
  bool allow_oversubscription = false;
};

/// Creates the device of the CPU: a persistent worker team whose member 0 is the launching thread.
[[nodiscard]] std::unique_ptr<Device> create_cpu_device(const CpuDeviceOptions& options = {});

}  // namespace reprise::device
