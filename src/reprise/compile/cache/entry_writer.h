#pragma once

#include <chrono>
#include <span>
#include <string>

#include "reprise/base/disk_steps.h"
#include "reprise/compile/cache/cache_entry.h"
#include "reprise/compile/cache/cache_key.h"

namespace reprise::compile {

/// Writes an entry into an open folder, so that readers see either the old entry or the new one. It
/// first writes all files under temporary names, then renames them to their final names, which
/// depend on the content, and renames the manifest last. If a step fails, it removes the temporary
/// files. At the end it removes temporary files, and files that the manifest does not list, if they
/// are older than `stale_after`; younger files may belong to an active writer or reader.
/// \pre the names of `files` are valid and distinct
[[nodiscard]] SaveOutcome write_entry(const DiskSteps& disk,
                                      int directory,
                                      const CacheKey& key,
                                      std::span<const CacheFile> files,
                                      const std::string& created_by,
                                      std::chrono::seconds stale_after);

}  // namespace reprise::compile
