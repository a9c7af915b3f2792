#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace reprise {

/// Called before each call to the file system, with a few words that name the call. If the hook
/// returns 0, the call is made; any other value is the errno with which the call fails instead.
/// Tests use the hook to fail or kill a save.
using StepHook = std::function<int(std::string_view step)>;

/// Owns a file descriptor.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) noexcept : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor();

  [[nodiscard]] int number() const noexcept { return number_; }
  /// Releases ownership; the caller closes the descriptor.
  [[nodiscard]] int release() noexcept { return std::exchange(number_, -1); }

 private:
  int number_ = -1;
};

/// The system calls of the cache. Each function calls the hook first and returns 0 or an errno. It
/// repeats a call that a signal interrupted, never follows a link below its starting folder, and
/// never waits for another process. Borrows the hook.
class DiskSteps {
 public:
  explicit DiskSteps(const StepHook& hook) noexcept : hook_(&hook) {}

  /// Creates a folder and its missing parents. Only the owner can access them. An existing folder
  /// is not an error.
  [[nodiscard]] int make_directories(const std::filesystem::path& path) const;
  /// Opens the root folder. It may be a link; the folder behind the link is then checked.
  [[nodiscard]] int open_root(const std::filesystem::path& path, Descriptor& opened) const;

  /// An existing folder is not an error.
  [[nodiscard]] int make_directory(int directory, const std::string& name) const;
  [[nodiscard]] int open_directory(int directory,
                                   const std::string& name,
                                   Descriptor& opened) const;
  [[nodiscard]] int list(int directory, size_t max_names, std::vector<std::string>& names) const;

  [[nodiscard]] int open_file(int directory, const std::string& name, Descriptor& opened) const;
  /// Reads `max_bytes` from the start of the file, or less if the file is shorter.
  [[nodiscard]] int read(const Descriptor& file, uint64_t max_bytes, std::string& bytes) const;

  /// Returns EEXIST if the name exists. Only the owner can read and write the file.
  [[nodiscard]] int create_file(int directory, const std::string& name, Descriptor& opened) const;
  /// Writes steps of `step_bytes`. Tests can interrupt a save between two steps.
  [[nodiscard]] int write(const Descriptor& file,
                          std::string_view bytes,
                          size_t step_bytes = size_t{256} << 10) const;
  [[nodiscard]] int sync(const Descriptor& file) const;
  /// Not an error if the file system cannot sync folders.
  [[nodiscard]] int sync_directory(int directory) const;

  enum class Existing { replaced, kept };
  /// With `kept`, the call returns EEXIST if `to` exists. A file system that cannot do that
  /// replaces `to`.
  [[nodiscard]] int rename(int directory,
                           const std::string& from,
                           const std::string& to,
                           Existing existing) const;
  [[nodiscard]] int remove(int directory, const std::string& name) const;

  [[nodiscard]] int status(int descriptor, struct stat& status) const;
  /// The status of the name itself: a link is not followed.
  [[nodiscard]] int status_of(int directory, const std::string& name, struct stat& status) const;

 private:
  template <typename Call>
  int run(std::string_view step, Call call) const;

  const StepHook* hook_;  // owned by the cache
};

}  // namespace reprise
