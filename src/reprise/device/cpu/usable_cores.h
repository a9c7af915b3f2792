#pragma once

#include <vector>

namespace reprise::device {

/// The cores that this process may use, in ascending order: those of its affinity mask, but not
/// more than the CPU quota of its container. A quota of 4 CPUs on 64 cores gives 4 cores, because
/// more threads would only be throttled.
[[nodiscard]] std::vector<int> usable_cores();

}  // namespace reprise::device
