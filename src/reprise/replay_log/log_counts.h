#pragma once

#include <cstdint>

namespace reprise::replay_log {

/// Counts since the start of the engine.
struct LogCounts {
  uint64_t num_written = 0;  // requests
  // Requests that are not in the file, because the disk or the memory had no room.
  uint64_t num_dropped = 0;
  uint64_t num_bytes = 0;  // that were written
};

}  // namespace reprise::replay_log
