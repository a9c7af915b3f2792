#pragma once

#include <cstdint>
#include <string_view>

#include "reprise/compile/cache/cache_entry.h"
#include "reprise/compile/cache/cache_key.h"
#include "reprise/compile/cache/disk_steps.h"

namespace reprise::compile {

inline constexpr std::string_view kManifestName = "manifest.json";

/// The number of broken manifests that an entry's folder keeps for people, as
/// `manifest.json.quarantine-<n>`, n from 1. When all names are taken, the last file is replaced.
inline constexpr int kMaxQuarantined = 4;

/// Reads the entry in an open folder into memory and verifies it: manifest, key, and size and
/// checksum of each file. A broken entry is moved aside by renaming its manifest, because files
/// without a manifest are no entry. An entry that is replaced during the call is read again. Never
/// waits.
[[nodiscard]] LoadOutcome read_entry(const DiskSteps& disk,
                                     int directory,
                                     const CacheKey& key,
                                     uint64_t max_entry_bytes);

}  // namespace reprise::compile
