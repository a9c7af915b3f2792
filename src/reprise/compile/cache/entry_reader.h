#pragma once

#include <cstdint>
#include <string_view>

#include "reprise/compile/cache/cache_entry.h"
#include "reprise/compile/cache/cache_key.h"
#include "reprise/compile/cache/disk_steps.h"

namespace reprise::compile {

inline constexpr std::string_view kManifestName = "manifest.json";

/// Broken manifests that an entry's folder keeps for people: `manifest.json.quarantine-<n>`, n from
/// 1. When all are taken, the last is replaced.
inline constexpr int kMaxQuarantined = 4;

/// Reads the entry in an open folder into memory and verifies what it read: manifest, key, and size
/// and checksum of each file. A broken one is put aside by renaming its manifest, which is all that
/// makes it an entry. An entry that is replaced meanwhile is read anew. Never waits.
[[nodiscard]] LoadOutcome read_entry(const DiskSteps& disk,
                                     int directory,
                                     const CacheKey& key,
                                     uint64_t max_entry_bytes);

}  // namespace reprise::compile
