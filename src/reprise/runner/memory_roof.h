#pragma once

#include <optional>

#include "reprise/runner/execution.h"

namespace reprise::runner {

/// The bandwidth at which this device reads memory that no cache holds, in GB (10^9 bytes) per
/// second: the best of a few passes over 256 MiB. A device that runs no CPU kernels copies the
/// memory instead; then reads and writes both count. Takes a fraction of a second. Nothing: too
/// little memory is free. \pre the stream does not capture
[[nodiscard]] std::optional<double> measure_memory_bandwidth(Execution& execution);

}  // namespace reprise::runner
