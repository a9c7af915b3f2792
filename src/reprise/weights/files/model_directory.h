#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/weights/files/input_file.h"

namespace reprise::weights {

/// The folder of one model and the only way its files are opened.
///
/// A file is asked for by its plain name and must lie inside the folder after all links are
/// resolved. One layout is known beyond that: in the Hugging Face hub cache
/// `.../snapshots/<revision>/` holds links into its sibling `.../blobs/`, so for a folder of that
/// form targets inside `blobs` are accepted too.
class ModelDirectory {
 public:
  /// \throws FileError E_MISSING, E_NOT_DIRECTORY.
  explicit ModelDirectory(const std::filesystem::path& path);

  /// Whether an entry of this name exists, of any kind.
  [[nodiscard]] bool contains(std::string_view file_name) const;

  /// Opens `file_name` for reading.
  /// \throws FileError E_PATH (not a plain name, or leads outside), E_MISSING, E_IO, E_NOT_REGULAR.
  [[nodiscard]] InputFile open(std::string_view file_name) const;

  /// The content of a small text file. \throws FileError as open(), and E_TOO_LARGE above
  /// `max_bytes`.
  [[nodiscard]] std::string read_text(std::string_view file_name, uint64_t max_bytes) const;

  /// The names of the entries that end in `ending`, sorted; at most `most` of them.
  [[nodiscard]] std::vector<std::string> names_with_ending(std::string_view ending,
                                                           size_t most) const;

  /// A folder directly inside this one. Links in it may lead wherever links in this folder may
  /// lead. \throws FileError E_PATH (not a plain name, or leads outside), E_MISSING,
  /// E_NOT_DIRECTORY.
  [[nodiscard]] ModelDirectory folder(std::string_view name) const;

  [[nodiscard]] std::string path_of(std::string_view file_name) const;
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

 private:
  std::filesystem::path path_;                // as given, for messages
  std::vector<std::filesystem::path> roots_;  // canonical folders a file may lie in
};

}  // namespace reprise::weights
