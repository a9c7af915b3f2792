#pragma once

#include <vector>

namespace reprise::device {

/// The cores that this process may use, ascending: its affinity mask, cut to the CPU quota of its
/// container (a quota of 4 CPUs on 64 cores gives 4 cores; more threads would only be throttled).
[[nodiscard]] std::vector<int> usable_cores();

}  // namespace reprise::device
