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

namespace reprise::compile {

/// Called before each call that reaches the file system, with a few words that name it. 0 lets the
/// call happen; anything else is the errno that it fails with instead. Tests fail or kill a store
/// here.
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
  /// The caller closes it.
  [[nodiscard]] int release() noexcept { return std::exchange(number_, -1); }

 private:
  int number_ = -1;
};

/// The system calls of the store: each passes the hook, is repeated when a signal interrupts it,
/// never follows a link below the folder that it starts from, never waits for another process, and
/// answers 0 or an errno. Borrows the hook.
class DiskSteps {
 public:
  explicit DiskSteps(const StepHook& hook) noexcept : hook_(&hook) {}

  /// Creates a folder and its missing parents, for the owner alone. An existing one is no error.
  [[nodiscard]] int make_directories(const std::filesystem::path& path) const;
  /// Follows links: where the store lies may be one, and is judged by what it leads to.
  [[nodiscard]] int open_root(const std::filesystem::path& path, Descriptor& opened) const;

  /// An existing one is no error.
  [[nodiscard]] int make_directory(int directory, const std::string& name) const;
  [[nodiscard]] int open_directory(int directory,
                                   const std::string& name,
                                   Descriptor& opened) const;
  [[nodiscard]] int list(int directory, size_t max_names, std::vector<std::string>& names) const;

  [[nodiscard]] int open_file(int directory, const std::string& name, Descriptor& opened) const;
  /// Up to `max_bytes` from the start; fewer when the file ends.
  [[nodiscard]] int read(const Descriptor& file, uint64_t max_bytes, std::string& bytes) const;

  /// EEXIST when the name is taken. Readable and writable for the owner alone.
  [[nodiscard]] int create_file(int directory, const std::string& name, Descriptor& opened) const;
  [[nodiscard]] int write(const Descriptor& file, std::string_view bytes) const;
  [[nodiscard]] int sync(const Descriptor& file) const;
  /// A file system that cannot do this for folders is no error.
  [[nodiscard]] int sync_directory(int directory) const;

  enum class Existing { replaced, kept };
  /// `kept` answers EEXIST when `to` exists, where the file system can tell; else it replaces.
  [[nodiscard]] int rename(int directory,
                           const std::string& from,
                           const std::string& to,
                           Existing existing) const;
  [[nodiscard]] int remove(int directory, const std::string& name) const;

  [[nodiscard]] int status(int descriptor, struct stat& status) const;
  /// Of a name, not of what a link by that name leads to.
  [[nodiscard]] int status_of(int directory, const std::string& name, struct stat& status) const;

 private:
  template <typename Call>
  int run(std::string_view step, Call call) const;

  const StepHook* hook_;  // owned by the store
};

}  // namespace reprise::compile
