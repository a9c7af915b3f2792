#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "reprise/compile/cache/disk_steps.h"

namespace reprise::compile {

/// `<xdg>/reprise/compile_cache`, or a folder below `<home>/.cache` when `xdg` is empty or
/// relative; empty when neither is an absolute path. The arguments are the values of HOME and
/// XDG_CACHE_HOME.
[[nodiscard]] std::filesystem::path default_cache_root(std::string_view home, std::string_view xdg);

/// A folder that only this user can have written, or the reason why it is not one.
struct PrivateDirectory {
  enum class State {
    open,
    absent,
    foreign,     // another user owns it, may write to it, or made the link that leads to it
    unreadable,  // the file system reports an error
  };

  State state = State::absent;
  Descriptor descriptor;
  std::string reason;
};

enum class MissingDirectory { reported, created };

/// Opens `root`, then each of `below` inside the previous one. The cache's content is executed, so
/// each of these folders must be owned by the effective user and not writable by others. A link is
/// followed only at `root`, and only if this user or the superuser made it. All later calls use the
/// returned descriptor, so the folder that was checked is the folder that is used.
[[nodiscard]] PrivateDirectory open_private_directory(const DiskSteps& disk,
                                                      const std::filesystem::path& root,
                                                      std::span<const std::string> below,
                                                      MissingDirectory missing);

}  // namespace reprise::compile
