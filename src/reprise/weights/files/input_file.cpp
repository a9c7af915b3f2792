#include "reprise/weights/files/input_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <system_error>
#include <utility>

#include "reprise/base/error.h"

namespace reprise::weights {
namespace {

std::string errno_text(int error) { return std::generic_category().message(error); }

}  // namespace

InputFile::InputFile(int descriptor, std::string path) noexcept
    : descriptor_(descriptor), path_(std::move(path)) {}

InputFile::InputFile(InputFile&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      size_bytes_(other.size_bytes_),
      device_(other.device_),
      inode_(other.inode_),
      path_(std::move(other.path_)) {}

InputFile& InputFile::operator=(InputFile&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(size_bytes_, other.size_bytes_);
  std::swap(device_, other.device_);
  std::swap(inode_, other.inode_);
  std::swap(path_, other.path_);
  return *this;
}

InputFile::~InputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

InputFile InputFile::open(const std::filesystem::path& path) {
  // O_NONBLOCK: opening a named pipe must not wait for a writer. It has no effect on regular files.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) {
    const int error = errno;
    if (error == ENOENT || error == ENOTDIR) {
      throw FileError("E_MISSING", path.string(), "", "no such file");
    }
    throw FileError("E_IO", path.string(), "", "cannot be opened: " + errno_text(error));
  }
  InputFile file(descriptor, path.string());
  struct stat status{};
  if (::fstat(descriptor, &status) != 0) {
    throw FileError("E_IO", file.path_, "", "cannot be examined: " + errno_text(errno));
  }
  if (!S_ISREG(status.st_mode)) {
    throw FileError("E_NOT_REGULAR", file.path_, "", "is not a regular file");
  }
  file.size_bytes_ = static_cast<uint64_t>(status.st_size);
  file.device_ = status.st_dev;
  file.inode_ = status.st_ino;
  (void)::posix_fadvise(descriptor, 0, 0, POSIX_FADV_SEQUENTIAL);  // only a hint to read ahead
  file.refuse_lfs_pointer();
  return file;
}

// In a clone without Git LFS, each large file is replaced by such a text. Source:
// https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md
void InputFile::refuse_lfs_pointer() const {
  constexpr std::string_view kBeginning = "version https://git-lfs.github.com/spec/";
  constexpr uint64_t kMostBytes = 1024;
  if (size_bytes_ < kBeginning.size() || size_bytes_ > kMostBytes) return;
  std::string text(kBeginning.size(), '\0');
  read_at(0, std::as_writable_bytes(std::span(text)), "");
  if (text != kBeginning) return;
  throw FileError("E_LFS_POINTER",
                  path_,
                  "",
                  "is a pointer of Git LFS, not the file itself; run `git lfs pull` in its folder, "
                  "or download the model with `hf download`");
}

bool InputFile::is_at(const std::filesystem::path& path) const noexcept {
  struct stat status{};
  return ::lstat(path.c_str(), &status) == 0 && status.st_dev == device_ && status.st_ino == inode_;
}

void InputFile::read_at(uint64_t offset, std::span<std::byte> dst, std::string_view field) const {
  // One system call moves at most about 2 GiB on Linux; a smaller step also bounds the wait of a
  // signal.
  constexpr size_t kMaxStepBytes = size_t{64} << 20;
  while (!dst.empty()) {
    const ssize_t got = ::pread(
        descriptor_, dst.data(), std::min(dst.size(), kMaxStepBytes), static_cast<off_t>(offset));
    if (got > 0) {
      dst = dst.subspan(static_cast<size_t>(got));
      offset += static_cast<uint64_t>(got);
    } else if (got == 0) {
      throw FileError(
          "E_TRUNCATED",
          path_,
          field,
          fmt::format("the file ends at byte {}, {} more were expected; it had {} bytes "
                      "when it was opened",
                      offset,
                      dst.size(),
                      size_bytes_));
    } else if (errno != EINTR) {
      throw FileError("E_IO", path_, field, "cannot be read: " + errno_text(errno));
    }
  }
}

}  // namespace reprise::weights
