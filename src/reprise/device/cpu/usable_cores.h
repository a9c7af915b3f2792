#pragma once

#include <vector>

namespace reprise::device {

/// The cores this process may use, ascending: its affinity mask, cut to the CPU quota of its
/// container (4 CPUs of quota on 64 cores = 4 cores; more threads would only be throttled).
[[nodiscard]] std::vector<int> usable_cores();

}  // namespace reprise::device
