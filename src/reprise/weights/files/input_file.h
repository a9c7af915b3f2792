#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace reprise::weights {

/// A regular file that is opened once and read by position.
///
/// Kind, size, identity and bytes of the file all come from one descriptor, so the file that was
/// checked is the file that is read. The file is never mapped: truncating a mapped file kills the
/// process with SIGBUS, while a short read is an error with a name
/// (docs/adr/0002-reading-weights.md). Reading is `const` and may be done from several threads at
/// once. Movable, not copyable.
class InputFile {
 public:
  /// \throws FileError E_MISSING (no such file), E_IO, E_NOT_REGULAR (folder, pipe, device),
  /// E_LFS_POINTER (a text of Git LFS that stands for the file).
  [[nodiscard]] static InputFile open(const std::filesystem::path& path);

  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&& other) noexcept;
  ~InputFile();

  /// Fills `dst` from byte `offset`; `field` names the data in an error. \throws FileError
  /// E_TRUNCATED if the file has become shorter since it was opened, E_IO.
  void read_at(uint64_t offset, std::span<std::byte> dst, std::string_view field) const;

  /// Size when the file was opened.
  [[nodiscard]] uint64_t size_bytes() const noexcept { return size_bytes_; }
  [[nodiscard]] const std::string& path() const noexcept { return path_; }

  /// Whether `path` (links not followed) is this very file: same device and inode.
  [[nodiscard]] bool is_at(const std::filesystem::path& path) const noexcept;

 private:
  InputFile(int descriptor, std::string path) noexcept;
  void refuse_lfs_pointer() const;

  int descriptor_ = -1;
  uint64_t size_bytes_ = 0;
  uint64_t device_ = 0;
  uint64_t inode_ = 0;
  std::string path_;
};

}  // namespace reprise::weights
