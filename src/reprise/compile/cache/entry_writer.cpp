#include "reprise/compile/cache/entry_writer.h"

#include <fmt/format.h>

#include <cerrno>
#include <random>
#include <system_error>
#include <unordered_set>
#include <utility>
#include <vector>

#include "reprise/compile/cache/cache_manifest.h"
#include "reprise/compile/cache/entry_reader.h"

namespace reprise::compile {
namespace {

constexpr std::string_view kTemporaryPrefix = ".tmp-";
// A save checks at most this many names. This program never creates so many files in a folder.
constexpr size_t kMaxSweptNames = 16'384;

std::string temporary_name() {
  // The name is random, because process ids are not unique when containers share a folder.
  std::random_device random;
  return fmt::format("{}{:08x}{:08x}", kTemporaryPrefix, random(), random());
}

/// Temporary files that will be renamed. The destructor removes those that have not been renamed.
class Drafts {
 public:
  Drafts(const DiskSteps& disk, int directory) : disk_(disk), directory_(directory) {}
  Drafts(const Drafts&) = delete;
  Drafts& operator=(const Drafts&) = delete;
  ~Drafts() {
    for (const Draft& draft : drafts_) {
      if (draft.is_on_disk) (void)disk_.remove(directory_, draft.temporary_name);
    }
  }

  [[nodiscard]] int add(std::string name, std::string_view bytes) {
    drafts_.push_back({.temporary_name = temporary_name(), .name = std::move(name)});
    Draft& draft = drafts_.back();
    Descriptor file;
    if (const int error = disk_.create_file(directory_, draft.temporary_name, file)) return error;
    draft.is_on_disk = true;
    if (const int error = disk_.write(file, bytes)) return error;
    return disk_.sync(file);
  }

  /// Renames the files in the order of add(). The manifest is added last, so it appears when all
  /// other files are in place.
  [[nodiscard]] int publish() {
    for (Draft& draft : drafts_) {
      if (&draft == &drafts_.back()) {
        if (const int error = disk_.sync_directory(directory_)) return error;
      }
      int error = rename(draft);
      if (error == EISDIR && put_aside(draft.name) == 0) error = rename(draft);
      if (error != 0) return error;
      draft.is_on_disk = false;
    }
    // From here on, readers see the new entry. If this sync fails, that is not an error, but a
    // power failure may then undo the save.
    (void)disk_.sync_directory(directory_);
    return 0;
  }

 private:
  struct Draft {
    std::string temporary_name;
    std::string name;
    bool is_on_disk = false;
  };

  [[nodiscard]] int rename(const Draft& draft) const {
    return disk_.rename(
        directory_, draft.temporary_name, draft.name, DiskSteps::Existing::replaced);
  }

  /// A file cannot replace a folder. The folder may belong to a person, so it is renamed and kept.
  [[nodiscard]] int put_aside(const std::string& name) const {
    return disk_.rename(
        directory_, name, fmt::format("{}{}", name, temporary_name()), DiskSteps::Existing::kept);
  }

  const DiskSteps& disk_;
  int directory_;
  std::vector<Draft> drafts_;
};

/// Removes old files. Never fails: a file that cannot be removed now is removed by a later save.
void sweep(const DiskSteps& disk,
           int directory,
           const Manifest& manifest,
           std::chrono::seconds stale_after) {
  // Compare with the manifest's time and not with this machine's clock, because the file server may
  // have another clock.
  struct stat published{};
  if (disk.status_of(directory, std::string(kManifestName), published) != 0) return;
  std::unordered_set<std::string> listed;
  for (const ManifestFile& file : manifest.files) listed.insert(file.stored_name());
  std::vector<std::string> names;
  if (disk.list(directory, kMaxSweptNames, names) != 0) return;
  for (const std::string& name : names) {
    const bool is_ours = name.starts_with(kTemporaryPrefix) || is_stored_name(name);
    if (!is_ours || listed.contains(name)) continue;
    struct stat status{};
    if (disk.status_of(directory, name, status) != 0) continue;
    if (published.st_mtim.tv_sec - status.st_mtim.tv_sec < stale_after.count()) continue;
    // If another writer renames new content to this name right now, its entry loses a file. A
    // reader then reports a broken entry, until the next save.
    (void)disk.remove(directory, name);
  }
}

}  // namespace

SaveOutcome write_entry(const DiskSteps& disk,
                        int directory,
                        const CacheKey& key,
                        std::span<const CacheFile> files,
                        const std::string& created_by,
                        std::chrono::seconds stale_after) {
  Manifest manifest{.key_text = key.text(), .created_by = created_by};
  for (const CacheFile& file : files) {
    manifest.files.push_back({.name = file.name,
                              .num_bytes = file.bytes.size(),
                              .checksum = cache_checksum(file.bytes)});
  }
  const std::string manifest_text = print_manifest(manifest);
  if (manifest_text.size() > kMaxManifestBytes) {
    return {.reason = fmt::format("the manifest would have {} bytes, at most {} are read",
                                  manifest_text.size(),
                                  kMaxManifestBytes)};
  }
  const auto not_saved = [](std::string_view name, int error) {
    return SaveOutcome{.reason =
                           fmt::format("{}: {}", name, std::generic_category().message(error))};
  };
  {
    Drafts drafts(disk, directory);
    for (size_t i = 0; i < files.size(); ++i) {
      const int error = drafts.add(manifest.files[i].stored_name(), files[i].bytes);
      if (error != 0) return not_saved(files[i].name, error);
    }
    if (const int error = drafts.add(std::string(kManifestName), manifest_text)) {
      return not_saved(kManifestName, error);
    }
    if (const int error = drafts.publish()) return not_saved("publishing", error);
  }
  sweep(disk, directory, manifest, stale_after);
  return {.saved = true};
}

}  // namespace reprise::compile
