#include "reprise/compile/cache/compile_cache.h"

#include <fmt/format.h>

#include <exception>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "reprise/base/assert.h"
#include "reprise/compile/cache/cache_manifest.h"
#include "reprise/compile/cache/entry_reader.h"
#include "reprise/compile/cache/entry_writer.h"

namespace reprise::compile {
namespace {

MissReason miss_reason(PrivateDirectory::State state) {
  switch (state) {
    case PrivateDirectory::State::foreign:
      return MissReason::foreign;
    case PrivateDirectory::State::unreadable:
      return MissReason::unreadable;
    default:
      return MissReason::absent;
  }
}

}  // namespace

std::filesystem::path default_cache_root(std::string_view home, std::string_view xdg) {
  std::filesystem::path base(xdg);
  // The XDG specification says that a relative path is invalid and must be ignored.
  if (!base.is_absolute()) {
    base = home;
    if (!base.is_absolute()) return {};
    base /= ".cache";
  }
  return base / "reprise" / "compile_cache";
}

std::string_view to_string(MissReason reason) {
  static constexpr std::array<std::string_view, kNumMissReasons> kNames = {
      "disabled", "absent", "foreign", "unreadable", "broken", "version", "key_mismatch"};
  return kNames[static_cast<size_t>(reason)];
}

CompileCache::CompileCache(CompileCacheOptions options) : options_(std::move(options)) {
  REPRISE_ASSERT(options_.rank >= 0, "rank {}", options_.rank);
}

LoadOutcome CompileCache::load(const CacheKey& key) {
  LoadOutcome outcome;
  try {
    outcome = find(key);
    // An exception, such as out of memory, must not prevent the engine's start: it counts as a
    // miss.
  } catch (const std::exception& error) {
    outcome = {.miss = MissReason::unreadable, .reason = error.what()};
  }
  if (outcome.is_hit()) {
    ++counters_.num_hits;
  } else {
    ++counters_.num_misses[static_cast<size_t>(outcome.miss)];
  }
  if (outcome.quarantined) ++counters_.num_quarantined;
  return outcome;
}

std::string rank_folder(int rank, std::string_view part) {
  return part.empty() ? fmt::format("rank_{}", rank) : fmt::format("rank_{}_{}", rank, part);
}

SaveOutcome CompileCache::save(const CacheKey& key, std::span<const CacheFile> files) {
  SaveOutcome outcome;
  try {
    outcome = publish(key, files);
  } catch (const std::exception& error) {  // as in load(): the cache never prevents a start
    outcome = {.reason = error.what()};
  }
  ++(outcome.saved ? counters_.num_saved : counters_.num_not_saved);
  return outcome;
}

std::filesystem::path CompileCache::entry_directory(const CacheKey& key) const {
  const std::string rank = rank_folder(options_.rank, options_.part);
  if (!options_.cache_dir.empty()) return options_.cache_dir / rank;
  if (options_.root.empty()) return {};
  return options_.root / key.hash() / rank;
}

std::string CompileCache::why_unused() const {
  if (options_.is_disabled) return "the compile cache is disabled";
  if (options_.root.empty() && options_.cache_dir.empty()) return "the compile cache has no folder";
  return "";
}

PrivateDirectory CompileCache::open(const CacheKey& key, MissingDirectory missing) const {
  const DiskSteps disk(options_.step_hook);
  const bool is_direct = !options_.cache_dir.empty();
  std::vector<std::string> below;
  if (!is_direct) below.push_back(key.hash());
  below.push_back(rank_folder(options_.rank, options_.part));
  return open_private_directory(
      disk, is_direct ? options_.cache_dir : options_.root, below, missing);
}

LoadOutcome CompileCache::find(const CacheKey& key) const {
  if (std::string reason = why_unused(); !reason.empty()) {
    return {.miss = MissReason::disabled, .reason = std::move(reason)};
  }
  PrivateDirectory directory = open(key, MissingDirectory::reported);
  if (directory.state != PrivateDirectory::State::open) {
    return {.miss = miss_reason(directory.state), .reason = std::move(directory.reason)};
  }
  const DiskSteps disk(options_.step_hook);
  LoadOutcome outcome =
      read_entry(disk, directory.descriptor.number(), key, options_.max_entry_bytes);
  if (!outcome.is_hit()) outcome.reason = entry_directory(key).string() + ": " + outcome.reason;
  return outcome;
}

SaveOutcome CompileCache::publish(const CacheKey& key, std::span<const CacheFile> files) const {
  if (std::string reason = why_unused(); !reason.empty()) return {.reason = std::move(reason)};
  if (std::string reason = why_not_storable(files); !reason.empty()) {
    return {.reason = std::move(reason)};
  }
  PrivateDirectory directory = open(key, MissingDirectory::created);
  if (directory.state != PrivateDirectory::State::open) {
    return {.reason = std::move(directory.reason)};
  }
  const DiskSteps disk(options_.step_hook);
  SaveOutcome outcome = write_entry(
      disk, directory.descriptor.number(), key, files, options_.created_by, options_.stale_after);
  if (!outcome.saved) outcome.reason = entry_directory(key).string() + ": " + outcome.reason;
  return outcome;
}

std::string CompileCache::why_not_storable(std::span<const CacheFile> files) const {
  if (files.size() > kMaxCacheFiles) {
    return fmt::format("{} files, at most {} make an entry", files.size(), kMaxCacheFiles);
  }
  std::unordered_set<std::string_view> names;
  uint64_t num_bytes = 0;
  for (const CacheFile& file : files) {
    if (!is_cache_file_name(file.name)) {
      return fmt::format("'{:.40}' cannot name a file of an entry", file.name);
    }
    if (!names.insert(file.name).second) return fmt::format("two files named '{}'", file.name);
    num_bytes += file.bytes.size();
  }
  if (num_bytes > options_.max_entry_bytes) {
    return fmt::format("{} bytes, at most {} make an entry", num_bytes, options_.max_entry_bytes);
  }
  return "";
}

}  // namespace reprise::compile
