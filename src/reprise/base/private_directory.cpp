#include "reprise/base/private_directory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace reprise {
namespace {

using State = PrivateDirectory::State;

PrivateDirectory refused(State state, std::string reason) {
  return {.state = state, .reason = std::move(reason)};
}

PrivateDirectory failed(const std::filesystem::path& path, int error) {
  const State state = error == ENOENT ? State::absent : State::unreadable;
  return refused(state,
                 fmt::format("{}: {}", path.string(), std::generic_category().message(error)));
}

PrivateDirectory judged(const DiskSteps& disk,
                        const std::filesystem::path& path,
                        Descriptor descriptor) {
  struct stat status{};
  if (const int error = disk.status(descriptor.number(), status); error != 0) {
    return failed(path, error);
  }
  if (status.st_uid != ::geteuid()) {
    return refused(State::foreign,
                   fmt::format("{}: owned by user {}, not by user {}; ignored",
                               path.string(),
                               status.st_uid,
                               ::geteuid()));
  }
  if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return refused(State::foreign,
                   fmt::format("{}: others may write to it (mode {:o}); ignored until chmod go-w",
                               path.string(),
                               status.st_mode & 07777));
  }
  return {.state = State::open, .descriptor = std::move(descriptor)};
}

PrivateDirectory open_root(const DiskSteps& disk,
                           const std::filesystem::path& path,
                           MissingDirectory missing) {
  // Remove a trailing slash: with it, status_of() would follow a link instead of checking it.
  const std::filesystem::path root = path.has_filename() ? path : path.parent_path();
  struct stat link{};
  int error = disk.status_of(AT_FDCWD, root, link);
  if (error == ENOENT && missing == MissingDirectory::created) {
    error = disk.make_directories(root);
    if (error == 0) error = disk.status_of(AT_FDCWD, root, link);
  }
  if (error != 0) return failed(root, error);
  if (S_ISLNK(link.st_mode) && link.st_uid != ::geteuid() && link.st_uid != 0) {
    return refused(State::foreign,
                   fmt::format("{}: a link made by user {}; ignored", root.string(), link.st_uid));
  }
  Descriptor opened;
  error = disk.open_root(root, opened);
  if (error != 0) return failed(root, error);
  return judged(disk, root, std::move(opened));
}

PrivateDirectory open_below(const DiskSteps& disk,
                            const Descriptor& parent,
                            const std::string& name,
                            const std::filesystem::path& path,
                            MissingDirectory missing) {
  Descriptor opened;
  int error = disk.open_directory(parent.number(), name, opened);
  if (error == ENOENT && missing == MissingDirectory::created) {
    error = disk.make_directory(parent.number(), name);
    // Sync the parent too, so that a power failure cannot lose the new folder's name.
    if (error == 0) error = disk.sync_directory(parent.number());
    if (error == 0) error = disk.open_directory(parent.number(), name, opened);
  }
  if (error == ENOTDIR || error == ELOOP) {
    struct stat status{};
    if (disk.status_of(parent.number(), name, status) == 0 && S_ISLNK(status.st_mode)) {
      return refused(State::foreign, fmt::format("{}: is a link; ignored", path.string()));
    }
  }
  if (error != 0) return failed(path, error);
  return judged(disk, path, std::move(opened));
}

}  // namespace

PrivateDirectory open_private_directory(const DiskSteps& disk,
                                        const std::filesystem::path& root,
                                        std::span<const std::string> below,
                                        MissingDirectory missing) {
  std::filesystem::path path = root;
  PrivateDirectory directory = open_root(disk, root, missing);
  for (const std::string& name : below) {
    if (directory.state != State::open) break;
    path /= name;
    directory = open_below(disk, directory.descriptor, name, path, missing);
  }
  return directory;
}

}  // namespace reprise
