#include "reprise/base/disk_steps.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>

namespace reprise {
namespace {

constexpr mode_t kDirectoryMode = 0700;
constexpr mode_t kFileMode = 0600;

}  // namespace

Descriptor::~Descriptor() {
  if (number_ >= 0) ::close(number_);
}

// `call` makes a system call and returns its result: -1 with errno set, or success.
template <typename Call>
int DiskSteps::run(std::string_view step, Call call) const {
  if (*hook_) {
    if (const int injected = (*hook_)(step); injected != 0) return injected;
  }
  while (call() < 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

int DiskSteps::make_directories(const std::filesystem::path& path) const {
  int error = make_directory(AT_FDCWD, path);
  if (error != ENOENT || !path.has_parent_path() || path.parent_path() == path) return error;
  error = make_directories(path.parent_path());
  return error != 0 ? error : make_directory(AT_FDCWD, path);
}

int DiskSteps::open_root(const std::filesystem::path& path, Descriptor& opened) const {
  return run("open root", [&] {
    opened = Descriptor(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    return opened.number();
  });
}

int DiskSteps::make_directory(int directory, const std::string& name) const {
  const int error =
      run("make directory", [&] { return ::mkdirat(directory, name.c_str(), kDirectoryMode); });
  return error == EEXIST ? 0 : error;
}

int DiskSteps::open_directory(int directory, const std::string& name, Descriptor& opened) const {
  return run("open directory", [&] {
    opened = Descriptor(
        ::openat(directory, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    return opened.number();
  });
}

int DiskSteps::list(int directory, size_t max_names, std::vector<std::string>& names) const {
  // Read through a duplicate: reading moves the descriptor's position, and closedir() closes it.
  Descriptor own;
  if (const int error = open_directory(directory, ".", own); error != 0) return error;
  const auto close = [](DIR* stream) { ::closedir(stream); };
  const std::unique_ptr<DIR, decltype(close)> stream(::fdopendir(own.number()), close);
  if (!stream) return errno;
  (void)own.release();
  while (names.size() < max_names) {
    const dirent* entry = ::readdir(stream.get());
    if (entry == nullptr) break;
    names.emplace_back(entry->d_name);
  }
  return 0;
}

int DiskSteps::open_file(int directory, const std::string& name, Descriptor& opened) const {
  // With O_NONBLOCK, opening a named pipe does not wait for a writer. Regular files ignore the
  // flag.
  return run("open file", [&] {
    opened = Descriptor(
        ::openat(directory, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    return opened.number();
  });
}

int DiskSteps::read(const Descriptor& file, uint64_t max_bytes, std::string& bytes) const {
  bytes.resize(max_bytes);
  size_t num_read = 0;
  while (num_read < bytes.size()) {
    ssize_t got = 0;
    const int error = run("read", [&] {
      return got = ::pread(file.number(),
                           bytes.data() + num_read,
                           bytes.size() - num_read,
                           static_cast<off_t>(num_read));
    });
    if (error != 0) return error;
    if (got == 0) break;
    num_read += static_cast<size_t>(got);
  }
  bytes.resize(num_read);
  return 0;
}

int DiskSteps::create_file(int directory, const std::string& name, Descriptor& opened) const {
  return run("create file", [&] {
    opened = Descriptor(::openat(
        directory, name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kFileMode));
    return opened.number();
  });
}

int DiskSteps::write(const Descriptor& file, std::string_view bytes, size_t step_bytes) const {
  while (!bytes.empty()) {
    ssize_t written = 0;
    const int error = run("write", [&] {
      return written = ::write(file.number(), bytes.data(), std::min(bytes.size(), step_bytes));
    });
    if (error != 0) return error;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return 0;
}

int DiskSteps::sync(const Descriptor& file) const {
  return run("sync file", [&] { return ::fsync(file.number()); });
}

int DiskSteps::sync_directory(int directory) const {
  const int error = run("sync directory", [&] { return ::fsync(directory); });
  return error == EINVAL || error == ENOTSUP ? 0 : error;
}

int DiskSteps::rename(int directory,
                      const std::string& from,
                      const std::string& to,
                      Existing existing) const {
  if (existing == Existing::kept) {
    const int error = run("rename", [&] {
      return ::renameat2(directory, from.c_str(), directory, to.c_str(), RENAME_NOREPLACE);
    });
    if (error != EINVAL && error != ENOSYS && error != ENOTSUP) return error;
  }
  return run("rename", [&] { return ::renameat(directory, from.c_str(), directory, to.c_str()); });
}

int DiskSteps::remove(int directory, const std::string& name) const {
  return run("remove", [&] { return ::unlinkat(directory, name.c_str(), 0); });
}

int DiskSteps::status(int descriptor, struct stat& status) const {
  return run("status", [&] { return ::fstat(descriptor, &status); });
}

int DiskSteps::status_of(int directory, const std::string& name, struct stat& status) const {
  return run("status",
             [&] { return ::fstatat(directory, name.c_str(), &status, AT_SYMLINK_NOFOLLOW); });
}

}  // namespace reprise
