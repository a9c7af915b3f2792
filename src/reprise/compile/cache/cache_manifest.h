#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::compile {

inline constexpr int kCacheFormatVersion = 1;

// A real manifest lists a few dozen files and has a key of a few kilobytes. These limits bound the
// time and memory for a broken or hostile manifest.
inline constexpr size_t kMaxManifestBytes = size_t{1} << 20;
inline constexpr size_t kMaxCacheFiles = 1024;
inline constexpr size_t kMaxCacheFileName = 128;  // leaves room for the checksum within NAME_MAX

/// XXH3, 64 bits.
[[nodiscard]] uint64_t cache_checksum(std::string_view bytes);

/// Whether `name` has only [A-Za-z0-9._-], is not empty and has no leading dot. Such a name cannot
/// lead out of its folder.
[[nodiscard]] bool is_cache_file_name(std::string_view name);

struct ManifestFile {
  std::string name;
  uint64_t num_bytes = 0;
  uint64_t checksum = 0;

  /// The file's name in the entry's folder. It contains the checksum of the content. So writers of
  /// different contents never touch each other's files, and the old entry stays complete until the
  /// new manifest is in place.
  [[nodiscard]] std::string stored_name() const;

  friend bool operator==(const ManifestFile&, const ManifestFile&) = default;
};

/// Whether `name` has the form of a result of stored_name().
[[nodiscard]] bool is_stored_name(std::string_view name);

/// The list of an entry's files. Files without a manifest are not entries.
struct Manifest {
  std::string key_text;  // CacheKey::text()
  // Program and version, for people. Has no time and no host, so that equal content gives equal
  // bytes.
  std::string created_by;
  std::vector<ManifestFile> files;

  friend bool operator==(const Manifest&, const Manifest&) = default;
};

/// JSON with a checksum over itself. Equal manifests give equal bytes.
[[nodiscard]] std::string print_manifest(const Manifest& manifest);

struct ManifestReading {
  std::optional<Manifest> manifest;
  bool is_other_version = false;  // intact, but written in another version of the format
  std::string reason;             // says why there is no manifest
};

/// Accepts only texts that print_manifest() can write, with safe and distinct file names and within
/// the limits above. Never throws because of the content of `text`.
[[nodiscard]] ManifestReading read_manifest(std::string_view text);

}  // namespace reprise::compile
