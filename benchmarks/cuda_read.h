#pragma once

#include "reprise/device/device.h"

namespace reprise::benchmark {

/// Bytes per second at which a kernel reads memory that no cache holds. This is an upper bound for
/// a step that reads its weights once. Median of seven runs. Uses 1 GiB for the time of the call.
/// \throws DeviceError
[[nodiscard]] double read_bandwidth(device::Device& device);

}  // namespace reprise::benchmark
