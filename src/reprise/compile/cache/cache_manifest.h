#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::compile {

inline constexpr int kCacheFormatVersion = 1;

// A real manifest has a few dozen files and a key of some kilobytes. These bound what a broken or
// hostile one can cost before it is refused.
inline constexpr size_t kMaxManifestBytes = size_t{1} << 20;
inline constexpr size_t kMaxCacheFiles = 1024;
inline constexpr size_t kMaxCacheFileName = 128;  // leaves room for the checksum below NAME_MAX

/// XXH3, 64 bits.
[[nodiscard]] uint64_t cache_checksum(std::string_view bytes);

/// [A-Za-z0-9._-], not empty, no leading dot: a name that cannot leave its folder.
[[nodiscard]] bool is_cache_file_name(std::string_view name);

struct ManifestFile {
  std::string name;
  uint64_t num_bytes = 0;
  uint64_t checksum = 0;

  /// Name in the entry's folder. It follows from the content, so writers of different contents
  /// never touch each other's files, and the old entry stays complete until the new manifest is in.
  [[nodiscard]] std::string stored_name() const;

  friend bool operator==(const ManifestFile&, const ManifestFile&) = default;
};

/// Whether `name` looks like a result of stored_name().
[[nodiscard]] bool is_stored_name(std::string_view name);

/// The manifest turns a set of files into an entry.
struct Manifest {
  std::string key_text;    // CacheKey::text()
  std::string created_by;  // program and version, for people; no time and no host: same bytes twice
  std::vector<ManifestFile> files;

  friend bool operator==(const Manifest&, const Manifest&) = default;
};

/// JSON with a checksum over itself. Equal manifests give equal bytes.
[[nodiscard]] std::string print_manifest(const Manifest& manifest);

struct ManifestReading {
  std::optional<Manifest> manifest;
  bool is_other_version = false;  // intact as far as can be seen, written by another format
  std::string reason;             // why there is no manifest
};

/// Accepts exactly the bytes that print_manifest() writes for file names that are safe and distinct
/// and counts within the limits above; never throws for what `text` holds.
[[nodiscard]] ManifestReading read_manifest(std::string_view text);

}  // namespace reprise::compile
