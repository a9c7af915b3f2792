#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "reprise/compile/cache/disk_steps.h"

namespace reprise::compile {

/// `<xdg>/reprise/compile_cache`, or below `<home>/.cache` when `xdg` is empty or relative; empty
/// when neither is an absolute path. The values are those of XDG_CACHE_HOME and HOME.
[[nodiscard]] std::filesystem::path default_cache_root(std::string_view home, std::string_view xdg);

/// A folder that only this user can have written, or the reason why it is not one.
struct PrivateDirectory {
  enum class State {
    open,
    absent,
    foreign,     // another user owns it, may write to it, or made the link that leads to it
    unreadable,  // the file system refuses
  };

  State state = State::absent;
  Descriptor descriptor;
  std::string reason;
};

enum class MissingDirectory { reported, created };

/// Opens `root`, then each of `below` inside the one before. What the cache holds is executed, so
/// each of these folders must be owned by the effective user and closed to writing by others. A
/// link is followed at `root` only, and only if its maker is this user or the superuser. Everything
/// afterwards goes through the descriptor: what was judged is what is used.
[[nodiscard]] PrivateDirectory open_private_directory(const DiskSteps& disk,
                                                      const std::filesystem::path& root,
                                                      std::span<const std::string> below,
                                                      MissingDirectory missing);

}  // namespace reprise::compile
