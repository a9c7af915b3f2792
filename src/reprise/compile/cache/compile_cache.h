#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "reprise/compile/cache/cache_entry.h"
#include "reprise/compile/cache/cache_key.h"
#include "reprise/compile/cache/disk_steps.h"
#include "reprise/compile/cache/private_directory.h"

namespace reprise::compile {

struct CompileCacheOptions {
  std::filesystem::path root;       // entries in <root>/<hash>/rank_<i>; default_cache_root()
  std::filesystem::path cache_dir;  // when set, the one entry is in <cache_dir>/rank_<i>
  int rank = 0;
  bool is_disabled = false;  // every load misses, and no entry is written
  std::string created_by;    // program and version, for people
  // Larger entries are neither saved nor read. The code of one model is a few MiB.
  uint64_t max_entry_bytes = uint64_t{256} << 20;
  // Longer than any save takes. Leftovers of killed writers stay for about this time.
  std::chrono::seconds stale_after = std::chrono::hours(1);
  StepHook step_hook;  // tests only
};

struct CompileCacheCounters {
  uint64_t num_hits = 0;
  std::array<uint64_t, kNumMissReasons> num_misses{};  // by MissReason
  uint64_t num_quarantined = 0;
  uint64_t num_saved = 0;
  uint64_t num_not_saved = 0;

  [[nodiscard]] uint64_t misses(MissReason reason) const {
    return num_misses[static_cast<size_t>(reason)];
  }

  friend bool operator==(const CompileCacheCounters&, const CompileCacheCounters&) = default;
};

/// Files of the compiler on disk, found by a key. The cache does not interpret their content.
/// Errors of the disk never throw: the result is either verified files, equal to the saved ones, or
/// a reason. No call takes a lock or waits: any number of processes may load and save the same
/// entry, and the last complete save wins. One object serves one thread at a time.
class CompileCache {
 public:
  /// \pre options.rank >= 0
  explicit CompileCache(CompileCacheOptions options);

  /// Looks the entry up; creates no files. A broken entry is moved aside, so that it is reported
  /// once.
  [[nodiscard]] LoadOutcome load(const CacheKey& key);

  /// Publishes an entry and replaces an existing one. Nothing is saved unless the names of `files`
  /// are valid and distinct.
  [[nodiscard]] SaveOutcome save(const CacheKey& key, std::span<const CacheFile> files);

  /// The folder of the entry, which may not exist yet; empty when the cache has no place.
  [[nodiscard]] std::filesystem::path entry_directory(const CacheKey& key) const;

  [[nodiscard]] const CompileCacheCounters& counters() const noexcept { return counters_; }

 private:
  [[nodiscard]] std::string why_unused() const;
  [[nodiscard]] PrivateDirectory open(const CacheKey& key, MissingDirectory missing) const;
  [[nodiscard]] LoadOutcome find(const CacheKey& key) const;
  [[nodiscard]] SaveOutcome publish(const CacheKey& key, std::span<const CacheFile> files) const;
  [[nodiscard]] std::string why_not_storable(std::span<const CacheFile> files) const;

  CompileCacheOptions options_;
  CompileCacheCounters counters_;
};

}  // namespace reprise::compile
