#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

namespace reprise::cli {

/// This program once more, with other arguments, its output in files. Killed when this goes.
class ChildProcess {
 public:
  /// \throws Error when it cannot be started
  ChildProcess(const std::vector<std::string>& arguments,
               const std::filesystem::path& out,
               const std::filesystem::path& err);
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;
  ~ChildProcess();

  [[nodiscard]] bool is_running();
  /// Exit code, once it has ended; 128 + signal when one killed it.
  int wait();
  /// SIGTERM, and SIGKILL when that took longer than `grace_seconds`.
  void stop(int grace_seconds);

 private:
  pid_t pid_ = -1;
  int status_ = 0;
};

/// A folder of its own under the system's temporary one, removed with all in it.
class TemporaryFolder {
 public:
  TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder();

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

 private:
  std::filesystem::path path_;
};

[[nodiscard]] std::string read_text(const std::filesystem::path& path);

}  // namespace reprise::cli
