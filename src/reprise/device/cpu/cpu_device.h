#pragma once

#include <memory>

#include "reprise/device/device.h"

namespace reprise::device {

struct CpuDeviceOptions {
  /// Workers including the calling thread; 0 = one per core this process may use (affinity mask and
  /// container quota). More than those are cut to them: extra threads only wait for each other.
  int num_threads = 0;
  /// Pin worker i > 0 to the i-th core of the process's affinity mask. Worker 0 is whatever thread
  /// launches; it belongs to the caller and is left as it is.
  bool pin_threads = true;
  /// How long an idle worker spins, in microseconds. Then it yields for half a millisecond, so that
  /// the gap between two steps costs no wake-up and other processes get the core, then it sleeps.
  int spin_us = 50;
  /// Keep num_threads above the number of cores: for tests of many workers on small machines.
  bool allow_oversubscription = false;
};

/// The CPU as a device: a persistent worker team of which the launching thread is member 0.
[[nodiscard]] std::unique_ptr<Device> create_cpu_device(const CpuDeviceOptions& options = {});

}  // namespace reprise::device
