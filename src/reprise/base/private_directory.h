#pragma once

#include <filesystem>
#include <span>
#include <string>

#include "reprise/base/disk_steps.h"

namespace reprise {

/// An open folder to which only this user can have written, or the reason why there is none.
struct PrivateDirectory {
  enum class State {
    open,
    absent,
    foreign,     // another user owns it, may write to it, or made the link to it
    unreadable,  // the file system reports an error
  };

  State state = State::absent;
  Descriptor descriptor;
  std::string reason;
};

enum class MissingDirectory { reported, created };

/// Opens `root`, then each name of `below` inside the previous folder. What is read there is
/// trusted like the program itself, so each folder must be owned by the effective user and must not
/// be writable by others. Only `root` may be a link, and only this user or the superuser may have
/// made that link. Later calls use the returned descriptor, so they use the same folder that was
/// checked.
[[nodiscard]] PrivateDirectory open_private_directory(const DiskSteps& disk,
                                                      const std::filesystem::path& root,
                                                      std::span<const std::string> below,
                                                      MissingDirectory missing);

}  // namespace reprise
