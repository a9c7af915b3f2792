#pragma once

#include <cstdint>

namespace reprise::replay_log {

/// Counts since the start of the engine.
struct LogCounts {
  uint64_t num_written = 0;  // requests
  uint64_t num_dropped = 0;  // requests that are not in the file: no room on the disk, or in memory
  uint64_t num_bytes = 0;    // that were written
};

}  // namespace reprise::replay_log
