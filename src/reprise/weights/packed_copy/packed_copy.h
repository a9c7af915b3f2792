#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/base/disk_steps.h"
#include "reprise/weights/mapped_weights.h"
#include "reprise/weights/packed_copy/packed_index.h"

namespace reprise::weights {

/// Calls `run_part(i)` for all parts, from several threads, and returns when all are done.
using RunParts =
    std::function<void(int64_t num_parts, const std::function<void(int64_t part)>& run_part)>;

/// The weights of a model in a mapped file. Pages that several processes map exist once in memory.
class PackedCopy final : public MappedWeights {
 public:
  /// Takes over the mapping of a file. \pre `index` was parsed from this file
  PackedCopy(PackedIndex index, void* mapped, size_t mapped_bytes);
  PackedCopy(const PackedCopy&) = delete;
  PackedCopy& operator=(const PackedCopy&) = delete;
  ~PackedCopy() override;

  [[nodiscard]] std::span<std::byte> find(std::string_view name,
                                          uint64_t plan,
                                          uint64_t bytes) const noexcept override;
  [[nodiscard]] bool has(const void* memory) const noexcept override;
  void replace_by_zeros(std::span<std::byte> weight) override;

  [[nodiscard]] const PackedIndex& index() const noexcept { return index_; }
  /// The first byte of the file.
  [[nodiscard]] const void* file() const noexcept { return mapped_; }

 private:
  PackedIndex index_;
  std::map<std::string_view, const PackedEntry*, std::less<>> entries_;  // of index_
  std::byte* mapped_;
  std::set<const std::byte*> weights_;  // those that were not replaced
  size_t mapped_bytes_;
};

/// One file with packed weights, in a folder to which only this user can write. Any number of
/// processes may open and save the same file: a save writes a file with another name and renames
/// it, so a mapped file never changes. Disk errors are never thrown.
class PackedCopyFile {
 public:
  struct Options {
    std::filesystem::path root;  // the folder; made by save()
    std::string name;            // name of the file in the folder
    std::string key;             // everything that the weights depend on
    // Must be longer than any save takes. Temporary files of killed writers are removed after this
    // time.
    std::chrono::seconds stale_after = std::chrono::hours(6);
    StepHook step_hook;  // tests only
  };

  struct Opened {
    std::shared_ptr<PackedCopy> copy;  // nullptr: there is no usable file
    std::string reason;                // why not
    bool is_broken = false;            // a file or folder exists, but something is wrong with it
  };

  struct Saved {
    bool is_saved = false;
    std::string reason;  // why not
    uint64_t bytes = 0;  // of the file
  };

  explicit PackedCopyFile(Options options) : options_(std::move(options)) {}

  /// Maps the file, after comparing every byte with its checksum.
  [[nodiscard]] Opened open(const RunParts& run_parts) const;
  /// Writes the file, and replaces an existing one. Needs 8 MiB of memory.
  [[nodiscard]] Saved save(std::span<const PackedWeight> weights, const RunParts& run_parts) const;

  [[nodiscard]] std::filesystem::path path() const { return options_.root / options_.name; }

 private:
  [[nodiscard]] Opened map(const DiskSteps& disk, const Descriptor& file) const;

  Options options_;
};

}  // namespace reprise::weights
