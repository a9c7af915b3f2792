#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

namespace reprise::cli {

/// A child process that runs this program with other arguments and writes its output to files. The
/// destructor kills the child.
class ChildProcess {
 public:
  /// \throws Error when the child cannot be started
  ChildProcess(const std::vector<std::string>& arguments,
               const std::filesystem::path& out,
               const std::filesystem::path& err);
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;
  ~ChildProcess();

  [[nodiscard]] bool is_running();
  /// Waits for the end of the child. Returns its exit code, or 128 + the signal that killed it.
  int wait();
  /// Sends SIGTERM, and SIGKILL when the child is still running after `grace_seconds`.
  void stop(int grace_seconds);

 private:
  pid_t pid_ = -1;
  int status_ = 0;
};

/// A new folder under the system's temporary folder; removed with its content at the end.
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
