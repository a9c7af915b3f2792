#pragma once

#include <memory>

#include "reprise/device/device.h"

namespace reprise::device {

struct CpuDeviceOptions {
  /// Workers including the calling thread; 0 = one per core this process may use.
  int num_threads = 0;
  /// Pin worker i to the i-th core of the process's affinity mask.
  bool pin_threads = true;
  /// How long an idle worker spins before it sleeps in the kernel, in microseconds.
  int spin_us = 50;
};

/// The CPU as a device: a persistent worker team of which the launching thread is member 0.
[[nodiscard]] std::unique_ptr<Device> create_cpu_device(const CpuDeviceOptions& options = {});

}  // namespace reprise::device
