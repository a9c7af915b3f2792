#pragma once

#include <cstddef>
#include <cstdint>

namespace reprise::kv_cache {

/// Counts of the prompts that a producer keeps for consumers.
struct KvExportCounts {
  size_t bytes = 0;           // of the images that wait now
  uint64_t num_taken_in = 0;  // since the start, like all others
  uint64_t num_refused = 0;   // there was no room
  uint64_t num_expired = 0;   // no consumer came in time
};

/// Counts of the prompts that one engine sent to others and fetched from them, since its start.
struct KvTransferCounts {
  KvExportCounts exports;
  uint64_t num_fetched = 0;
  uint64_t num_failed = 0;
  uint64_t bytes_fetched = 0;
  uint64_t tokens_fetched = 0;
  double seconds = 0;  // of all fetches, the failed ones too
};

}  // namespace reprise::kv_cache
