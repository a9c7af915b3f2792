#include "reprise/weights/packed_copy/packed_copy.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <system_error>
#include <utility>

#include "reprise/base/error.h"
#include "reprise/base/private_directory.h"

namespace reprise::weights {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

std::string error_text(int error) { return std::generic_category().message(error); }

/// Maps a file at a multiple of a huge page, because the system maps huge pages of a file only if
/// address and offset are aligned alike. \returns nullptr if the system refuses
std::byte* map_aligned(int descriptor, size_t bytes) noexcept {
  void* raw = mmap(nullptr, bytes + kHugePage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (raw == MAP_FAILED) return nullptr;
  auto* const begin = static_cast<std::byte*>(raw);
  const size_t before = (kHugePage - reinterpret_cast<uintptr_t>(begin) % kHugePage) % kHugePage;
  std::byte* const place = begin + before;
  if (mmap(place, bytes, PROT_READ, MAP_PRIVATE | MAP_FIXED, descriptor, 0) == MAP_FAILED) {
    munmap(raw, bytes + kHugePage);
    return nullptr;
  }
  const size_t mapped = (bytes + kPackedAlignment - 1) / kPackedAlignment * kPackedAlignment;
  if (before != 0) munmap(begin, before);
  munmap(place + mapped, kHugePage - before + bytes - mapped);
  (void)madvise(place, bytes, MADV_HUGEPAGE);  // if the system refuses, only speed is lost
  return place;
}

/// The entries, the longest first, so that all workers end at about the same time.
std::vector<const PackedEntry*> longest_first(const PackedIndex& index) {
  std::vector<const PackedEntry*> entries;
  for (const PackedEntry& entry : index.entries) entries.push_back(&entry);
  std::ranges::stable_sort(entries, std::greater(), &PackedEntry::bytes);
  return entries;
}

/// Compares every weight with its checksum. \returns the name of one that differs, or nothing
std::string find_damage(const PackedIndex& index,
                        const std::byte* file,
                        const RunParts& run_parts) {
  const std::vector<const PackedEntry*> entries = longest_first(index);
  std::atomic<const PackedEntry*> damaged{nullptr};
  run_parts(static_cast<int64_t>(entries.size()), [&](int64_t part) {
    const PackedEntry& entry = *entries[static_cast<size_t>(part)];
    if (packed_checksum({file + entry.offset, entry.bytes}) != entry.checksum) damaged = &entry;
  });
  return damaged.load() == nullptr ? std::string() : damaged.load()->name;
}

}  // namespace

PackedCopy::PackedCopy(PackedIndex index, void* mapped, size_t mapped_bytes)
    : index_(std::move(index)),
      mapped_(static_cast<std::byte*>(mapped)),
      mapped_bytes_(mapped_bytes) {
  for (const PackedEntry& entry : index_.entries) {
    entries_.emplace(entry.name, &entry);
    weights_.insert(mapped_ + entry.offset);
  }
}

PackedCopy::~PackedCopy() { munmap(mapped_, mapped_bytes_); }

std::span<std::byte> PackedCopy::find(std::string_view name,
                                      uint64_t plan,
                                      uint64_t bytes) const noexcept {
  const auto found = entries_.find(name);
  if (found == entries_.end()) return {};
  const PackedEntry& entry = *found->second;
  if (entry.plan != plan || entry.bytes != bytes || !has(mapped_ + entry.offset)) return {};
  return {mapped_ + entry.offset, entry.bytes};
}

bool PackedCopy::has(const void* memory) const noexcept {
  return weights_.contains(static_cast<const std::byte*>(memory));
}

void PackedCopy::replace_by_zeros(std::span<std::byte> weight) {
  const size_t bytes = (weight.size() + kPackedAlignment - 1) / kPackedAlignment * kPackedAlignment;
  if (mmap(weight.data(),
           bytes,
           PROT_READ | PROT_WRITE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
           -1,
           0) == MAP_FAILED) {
    throw OutOfMemory(
        fmt::format("{} bytes in the place of a mapped weight: {}", bytes, error_text(errno)));
  }
  (void)madvise(weight.data(), bytes, MADV_HUGEPAGE);
  weights_.erase(weight.data());
}

PackedCopyFile::Opened PackedCopyFile::open(const RunParts& run_parts) const {
  const DiskSteps disk(options_.step_hook);
  const PrivateDirectory folder =
      open_private_directory(disk, options_.root, {}, MissingDirectory::reported);
  if (folder.state != PrivateDirectory::State::open) {
    return {.reason = folder.reason, .is_broken = folder.state != PrivateDirectory::State::absent};
  }
  Descriptor file;
  if (const int error = disk.open_file(folder.descriptor.number(), options_.name, file)) {
    return {.reason = fmt::format("{}: {}", path().string(), error_text(error)),
            .is_broken = error != ENOENT};
  }
  Opened opened = map(disk, file);
  if (opened.copy != nullptr) {
    const PackedIndex& index = opened.copy->index();
    const auto* const begin = static_cast<const std::byte*>(opened.copy->file());
    if (const std::string name = find_damage(index, begin, run_parts); !name.empty()) {
      opened = {.reason = fmt::format("the weight {} is damaged", name), .is_broken = true};
    }
  }
  if (!opened.reason.empty()) {
    opened.reason = fmt::format("{}: {}", path().string(), opened.reason);
  }
  return opened;
}

PackedCopyFile::Opened PackedCopyFile::map(const DiskSteps& disk, const Descriptor& file) const {
  const auto broken = [](std::string reason) {
    return Opened{.reason = std::move(reason), .is_broken = true};
  };
  struct stat status{};
  if (const int error = disk.status(file.number(), status)) return broken(error_text(error));
  if (!S_ISREG(status.st_mode)) return broken("is not a regular file");
  const auto file_bytes = static_cast<uint64_t>(status.st_size);
  std::string bytes;
  if (const int error = disk.read(file, kPackedHeaderBytes, bytes)) {
    return broken(error_text(error));
  }
  PackedHeader header;
  if (std::string why = parse_packed_header(bytes, file_bytes, header); !why.empty()) {
    return broken(std::move(why));
  }
  if (const int error = disk.read(file, kPackedHeaderBytes + header.index_bytes, bytes)) {
    return broken(error_text(error));
  }
  if (bytes.size() < kPackedHeaderBytes) return broken("became shorter");
  PackedIndex index;
  const std::string_view text = std::string_view(bytes).substr(kPackedHeaderBytes);
  if (std::string why = parse_packed_index(header, text, index); !why.empty()) {
    return broken(std::move(why));
  }
  if (index.key != options_.key) {
    return {.reason = "was made from other files, or by another version"};
  }
  std::byte* const mapped = map_aligned(file.number(), file_bytes);
  if (mapped == nullptr) return broken(fmt::format("cannot be mapped: {}", error_text(errno)));
  return {.copy = std::make_shared<PackedCopy>(std::move(index), mapped, file_bytes)};
}

}  // namespace reprise::weights
