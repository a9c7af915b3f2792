#include <fmt/format.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <system_error>
#include <utility>

#include "reprise/base/private_directory.h"
#include "reprise/weights/packed_copy/packed_copy.h"

namespace reprise::weights {
namespace {

constexpr std::string_view kTemporaryPrefix = ".tmp-";
// The largest number of names that a save looks at.
constexpr size_t kMaxSweptNames = 16'384;
// Writes whole huge pages at multiples of huge pages: the system then keeps the file in huge pages,
// and maps them as such. With writes of 1 MiB it did not.
constexpr size_t kWriteBytes = size_t{8} << 20;

std::string error_text_of(int error) { return std::generic_category().message(error); }

std::string temporary_name() {
  // The name is random, because process ids are not unique when containers share a folder.
  std::random_device random;
  return fmt::format("{}{:08x}{:08x}", kTemporaryPrefix, random(), random());
}

/// A new file that is removed again unless it is renamed.
class Draft {
 public:
  Draft(const DiskSteps& disk, int folder) : disk_(disk), folder_(folder) {}
  Draft(const Draft&) = delete;
  Draft& operator=(const Draft&) = delete;
  ~Draft() {
    if (is_on_disk_) (void)disk_.remove(folder_, name_);
  }

  [[nodiscard]] int create() {
    const int error = disk_.create_file(folder_, name_, file_);
    is_on_disk_ = error == 0;
    return error;
  }
  [[nodiscard]] int append(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const size_t count = std::min(bytes.size(), kWriteBytes - block_.size());
      block_.append(reinterpret_cast<const char*>(bytes.data()), count);
      bytes = bytes.subspan(count);
      num_bytes_ += count;
      if (block_.size() < kWriteBytes) continue;
      if (const int error = flush()) return error;
    }
    return 0;
  }
  [[nodiscard]] int pad_to(uint64_t offset) {
    const std::vector<std::byte> zeros(offset - num_bytes_);
    return append(zeros);
  }
  [[nodiscard]] int publish(const std::string& name) {
    if (const int error = flush()) return error;
    if (const int error = disk_.rename(folder_, name_, name, DiskSteps::Existing::replaced)) {
      return error;
    }
    is_on_disk_ = false;
    return 0;
  }

 private:
  [[nodiscard]] int flush() {
    const int error = disk_.write(file_, block_, kWriteBytes);
    block_.clear();
    return error;
  }

  const DiskSteps& disk_;
  int folder_;
  std::string name_ = temporary_name();
  Descriptor file_;
  std::string block_;
  uint64_t num_bytes_ = 0;
  bool is_on_disk_ = false;
};

/// Removes what killed writers have left. Never fails.
void sweep(const DiskSteps& disk,
           int folder,
           const std::string& published_name,
           std::chrono::seconds stale_after) {
  // Compares with the new file's time instead of this machine's clock, because a file server may
  // have another clock.
  struct stat published{};
  std::vector<std::string> names;
  if (disk.status_of(folder, published_name, published) != 0 ||
      disk.list(folder, kMaxSweptNames, names) != 0) {
    return;
  }
  for (const std::string& name : names) {
    struct stat status{};
    if (!name.starts_with(kTemporaryPrefix) || disk.status_of(folder, name, status) != 0) continue;
    if (published.st_mtim.tv_sec - status.st_mtim.tv_sec < stale_after.count()) continue;
    (void)disk.remove(folder, name);
  }
}

/// Why a file of this many bytes cannot be written to this file system, or nothing.
std::string why_no_room(int folder, uint64_t bytes) {
  struct statvfs space{};
  if (::fstatvfs(folder, &space) != 0) return {};
  const uint64_t free = static_cast<uint64_t>(space.f_bavail) * space.f_frsize;
  if (free > bytes) return {};
  return fmt::format("{} bytes are needed, the file system has {} left", bytes, free);
}

PackedIndex index_of(std::span<const PackedWeight> weights,
                     const std::string& key,
                     const RunParts& run_parts) {
  PackedIndex index{.key = key, .entries = std::vector<PackedEntry>(weights.size())};
  run_parts(static_cast<int64_t>(weights.size()), [&](int64_t part) {
    const PackedWeight& weight = weights[static_cast<size_t>(part)];
    index.entries[static_cast<size_t>(part)] = {.name = weight.name,
                                                .plan = weight.plan,
                                                .bytes = weight.bytes.size(),
                                                .checksum = packed_checksum(weight.bytes)};
  });
  return index;
}

int write_all(Draft& draft, const PackedIndex& index, std::span<const PackedWeight> weights) {
  if (const int error = draft.create()) return error;
  const std::string begin = index.print();
  if (const int error = draft.append(std::as_bytes(std::span(begin)))) return error;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (const int error = draft.pad_to(index.entries[i].offset)) return error;
    if (const int error = draft.append(weights[i].bytes)) return error;
  }
  return 0;
}

}  // namespace

PackedCopyFile::Saved PackedCopyFile::save(std::span<const PackedWeight> weights,
                                           const RunParts& run_parts) const {
  const DiskSteps disk(options_.step_hook);
  const auto not_saved = [&](std::string_view why) {
    return Saved{.reason = fmt::format("{}: {}", path().string(), why)};
  };
  const PrivateDirectory folder =
      open_private_directory(disk, options_.root, {}, MissingDirectory::created);
  if (folder.state != PrivateDirectory::State::open) return {.reason = folder.reason};
  const int descriptor = folder.descriptor.number();
  PackedIndex index = index_of(weights, options_.key, run_parts);
  const uint64_t bytes = index.lay_out();
  if (const std::string why = why_no_room(descriptor, bytes); !why.empty()) return not_saved(why);
  Draft draft(disk, descriptor);
  // No sync: a power failure may leave holes in the file. Then the next start finds wrong checksums
  // and writes the file again.
  if (const int error = write_all(draft, index, weights)) return not_saved(error_text_of(error));
  if (const int error = draft.publish(options_.name)) return not_saved(error_text_of(error));
  sweep(disk, descriptor, options_.name, options_.stale_after);
  return {.is_saved = true, .bytes = bytes};
}

}  // namespace reprise::weights
