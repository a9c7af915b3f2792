#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "reprise/base/disk_steps.h"
#include "reprise/base/private_directory.h"
#include "reprise/compile/cache/cache_entry.h"
#include "reprise/compile/cache/cache_key.h"

namespace reprise::compile {

/// `<xdg>/reprise/compile_cache`. If `xdg` is empty or relative,
/// `<home>/.cache/reprise/compile_cache`. Empty if neither is an absolute path. The arguments are
/// the values of HOME and XDG_CACHE_HOME.
[[nodiscard]] std::filesystem::path default_cache_root(std::string_view home, std::string_view xdg);

/// "rank_0", or with a part "rank_0_adapters": the folder for the programs of one rank, in the
/// cache and in dumps.
[[nodiscard]] std::string rank_folder(int rank, std::string_view part);

struct CompileCacheOptions {
  // default_cache_root(); entries are in the folders <root>/<hash>/rank_folder().
  std::filesystem::path root;
  std::filesystem::path cache_dir;  // if set, there is a single entry, in <cache_dir>/rank_folder()
  int rank = 0;
  std::string part;          // of the programs of this rank; empty: those of its model
  bool is_disabled = false;  // every load misses, and no entry is written
  std::string created_by;    // program and version, for people who look at the files
  // Larger entries are neither saved nor loaded. The code of one model has a few MiB.
  uint64_t max_entry_bytes = uint64_t{256} << 20;
  // Must be longer than any save takes. Temporary files of killed writers are removed after this
  // time.
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

/// Stores files of the compiler on disk under a key. The cache does not interpret them. Disk errors
/// are never thrown: load() returns either verified files, equal to the saved ones, or a reason. No
/// call takes a lock or waits. Any number of processes may load and save the same entry; the last
/// complete save wins. An object may be used by one thread at a time.
class CompileCache {
 public:
  /// \pre options.rank >= 0
  explicit CompileCache(CompileCacheOptions options);

  /// Looks the entry up, without creating files. A broken entry is moved aside, so that it is
  /// reported only once.
  [[nodiscard]] LoadOutcome load(const CacheKey& key);

  /// Saves an entry and replaces an existing one. Saves nothing if the names of `files` are invalid
  /// or not distinct.
  [[nodiscard]] SaveOutcome save(const CacheKey& key, std::span<const CacheFile> files);

  /// The folder of the entry, which may not exist yet. Empty if neither root nor cache_dir is set.
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
