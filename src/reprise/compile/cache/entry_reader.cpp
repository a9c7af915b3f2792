#include "reprise/compile/cache/entry_reader.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "reprise/compile/cache/cache_manifest.h"

namespace reprise::compile {
namespace {

// How often to read again if another writer has replaced the entry in the meantime.
constexpr int kMaxAttempts = 8;

LoadOutcome miss(MissReason why, std::string reason) {
  return {.miss = why, .reason = std::move(reason)};
}

LoadOutcome refused_by_system(std::string_view name, int error) {
  return miss(MissReason::unreadable,
              fmt::format("{}: {}", name, std::generic_category().message(error)));
}

struct OpenFile {
  Descriptor descriptor;
  uint64_t num_bytes = 0;
};

/// Opens a regular file that only this user can have written; otherwise returns the miss.
std::optional<LoadOutcome> open_own_file(const DiskSteps& disk,
                                         int directory,
                                         const std::string& name,
                                         OpenFile& file) {
  const int error = disk.open_file(directory, name, file.descriptor);
  if (error == ENOENT) return miss(MissReason::broken, fmt::format("{}: is missing", name));
  if (error == ELOOP || error == ENXIO) {
    return miss(MissReason::broken, fmt::format("{}: is not a regular file", name));
  }
  if (error != 0) return refused_by_system(name, error);
  struct stat status{};
  if (const int failure = disk.status(file.descriptor.number(), status); failure != 0) {
    return refused_by_system(name, failure);
  }
  if (!S_ISREG(status.st_mode)) {
    return miss(MissReason::broken, fmt::format("{}: is not a regular file", name));
  }
  if (status.st_uid != ::geteuid() || (status.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return miss(MissReason::foreign,
                fmt::format("{}: user {}, mode {:o}: others may have written it; ignored",
                            name,
                            status.st_uid,
                            status.st_mode & 07777));
  }
  file.num_bytes = static_cast<uint64_t>(status.st_size);
  return std::nullopt;
}

std::optional<LoadOutcome> read_manifest_text(const DiskSteps& disk,
                                              int directory,
                                              const std::string& name,
                                              std::string& text) {
  text.clear();
  OpenFile file;
  if (auto refusal = open_own_file(disk, directory, name, file)) return refusal;
  // Read one byte more than the limit: enough to see that the file is too large.
  const uint64_t max_bytes = std::min<uint64_t>(file.num_bytes, kMaxManifestBytes + 1);
  const int error = disk.read(file.descriptor, max_bytes, text);
  if (error != 0) return refused_by_system(name, error);
  return std::nullopt;
}

std::optional<LoadOutcome> read_file(const DiskSteps& disk,
                                     int directory,
                                     const ManifestFile& expected,
                                     std::string& bytes) {
  const std::string name = expected.stored_name();
  OpenFile file;
  if (auto refusal = open_own_file(disk, directory, name, file)) return refusal;
  // Check the size before allocating as much memory as the manifest states.
  if (file.num_bytes != expected.num_bytes) {
    return miss(
        MissReason::broken,
        fmt::format(
            "{}: {} bytes, the manifest says {}", name, file.num_bytes, expected.num_bytes));
  }
  if (const int error = disk.read(file.descriptor, expected.num_bytes, bytes); error != 0) {
    return refused_by_system(name, error);
  }
  if (bytes.size() != expected.num_bytes || cache_checksum(bytes) != expected.checksum) {
    return miss(MissReason::broken, fmt::format("{}: the checksum does not fit", name));
  }
  return std::nullopt;
}

bool exceeds(const std::vector<ManifestFile>& files, uint64_t max_bytes) {
  for (const ManifestFile& file : files) {
    if (file.num_bytes > max_bytes) return true;
    max_bytes -= file.num_bytes;
  }
  return false;
}

LoadOutcome read_once(const DiskSteps& disk,
                      int directory,
                      const CacheKey& key,
                      uint64_t max_entry_bytes,
                      std::string& manifest_text) {
  const std::string manifest_name(kManifestName);
  if (auto refusal = read_manifest_text(disk, directory, manifest_name, manifest_text)) {
    return std::move(*refusal);
  }
  const ManifestReading reading = read_manifest(manifest_text);
  if (reading.is_other_version) return miss(MissReason::version, reading.reason);
  if (!reading.manifest) return miss(MissReason::broken, reading.reason);
  if (reading.manifest->key_text != key.text()) {
    return miss(MissReason::key_mismatch, "the entry was made from another key");
  }
  if (exceeds(reading.manifest->files, max_entry_bytes)) {
    return miss(MissReason::broken,
                fmt::format("the manifest lists more than {} bytes", max_entry_bytes));
  }
  std::vector<CacheFile> files;
  for (const ManifestFile& expected : reading.manifest->files) {
    files.push_back({.name = expected.name});
    if (auto refusal = read_file(disk, directory, expected, files.back().bytes)) {
      return std::move(*refusal);
    }
  }
  return {.files = std::move(files)};
}

bool has_manifest(const DiskSteps& disk, int directory) {
  struct stat status{};
  return disk.status_of(directory, std::string(kManifestName), status) != ENOENT;
}

/// Whether the manifest has been replaced or removed since it was read.
bool is_replaced(const DiskSteps& disk, int directory, const std::string& judged) {
  std::string text;
  (void)read_manifest_text(disk, directory, std::string(kManifestName), text);
  return text != judged || !has_manifest(disk, directory);
}

int rename_to_quarantine(const DiskSteps& disk, int directory, std::string& name) {
  const std::string manifest(kManifestName);
  int error = EEXIST;
  for (int n = 1; n <= kMaxQuarantined && error == EEXIST; ++n) {
    name = fmt::format("{}.quarantine-{}", manifest, n);
    error = disk.rename(directory, manifest, name, DiskSteps::Existing::kept);
  }
  if (error != EEXIST) return error;
  return disk.rename(directory, manifest, name, DiskSteps::Existing::replaced);
}

enum class Quarantine { done, failed, undone };

/// Moves the manifest aside. `undone`: between the check and the rename a writer saved a new entry;
/// its manifest was put back.
Quarantine quarantine(const DiskSteps& disk,
                      int directory,
                      const std::string& judged,
                      std::string& reason) {
  std::string name;
  const int error = rename_to_quarantine(disk, directory, name);
  if (error == ENOENT) return Quarantine::undone;  // another reader has moved it already
  if (error != 0) {
    reason += fmt::format("; it stays: {}", std::generic_category().message(error));
    return Quarantine::failed;
  }
  std::string moved;
  const bool is_readable = !read_manifest_text(disk, directory, name, moved);
  if (is_readable && moved != judged) {
    (void)disk.rename(directory, name, std::string(kManifestName), DiskSteps::Existing::kept);
    return Quarantine::undone;
  }
  reason += fmt::format("; put aside as {}", name);
  return Quarantine::done;
}

}  // namespace

LoadOutcome read_entry(const DiskSteps& disk,
                       int directory,
                       const CacheKey& key,
                       uint64_t max_entry_bytes) {
  for (int attempt = 0; attempt < kMaxAttempts; ++attempt) {
    std::string manifest_text;
    LoadOutcome outcome = read_once(disk, directory, key, max_entry_bytes, manifest_text);
    if (outcome.is_hit() || outcome.miss != MissReason::broken) return outcome;
    if (!has_manifest(disk, directory)) return miss(MissReason::absent, "no entry");
    if (is_replaced(disk, directory, manifest_text)) continue;
    const Quarantine result = quarantine(disk, directory, manifest_text, outcome.reason);
    if (result == Quarantine::undone) continue;
    outcome.quarantined = result == Quarantine::done;
    return outcome;
  }
  return miss(MissReason::unreadable, "the entry was replaced again and again while it was read");
}

}  // namespace reprise::compile
