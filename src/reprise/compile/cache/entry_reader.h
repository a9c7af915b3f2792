#pragma once

#include <cstdint>
#include <string_view>

#include "reprise/base/disk_steps.h"
#include "reprise/compile/cache/cache_entry.h"
#include "reprise/compile/cache/cache_key.h"

namespace reprise::compile {

inline constexpr std::string_view kManifestName = "manifest.json";

/// How many broken manifests stay in an entry's folder for people to look at, named
/// `manifest.json.quarantine-<n>` with n from 1. When all names are taken, the last one is
/// replaced.
inline constexpr int kMaxQuarantined = 4;

/// Reads the entry in an open folder and verifies it: the manifest, the key, and the size and
/// checksum of each file. If the entry is broken, its manifest is renamed, because files without a
/// manifest are not an entry. If another process replaces the entry during the call, it is read
/// again. Never waits.
[[nodiscard]] LoadOutcome read_entry(const DiskSteps& disk,
                                     int directory,
                                     const CacheKey& key,
                                     uint64_t max_entry_bytes);

}  // namespace reprise::compile
