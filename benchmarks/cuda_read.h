#pragma once

#include "reprise/device/device.h"

namespace reprise::benchmark {

/// Bytes per second that a kernel reads, of memory that no cache holds: what a step that reads its
/// weights once can reach at most. Median of seven. Takes 1 GiB meanwhile. \throws DeviceError
[[nodiscard]] double read_bandwidth(device::Device& device);

}  // namespace reprise::benchmark
