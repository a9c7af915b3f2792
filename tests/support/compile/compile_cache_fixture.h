#pragma once

#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/compile/cache/compile_cache.h"

namespace reprise::compile {

/// A new folder, removed with its content when the object is destroyed.
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

/// A user that is neither the superuser nor the user who runs the tests: "nobody" on Linux.
inline constexpr uid_t kForeignUser = 65534;

inline bool is_superuser() { return ::geteuid() == 0; }

CacheKey example_key(std::string_view model = "llama");

/// Three files, one of them empty. `tag` determines their bytes.
std::vector<CacheFile> tagged_files(uint64_t tag, size_t num_bytes = 300);
/// The tag with which tagged_files() made these files; throws std::runtime_error if any byte
/// differs.
uint64_t tag_of(const std::vector<CacheFile>& files, size_t num_bytes = 300);

std::string read_bytes(const std::filesystem::path& path);
/// Overwrites the file in place, like a failing disk: inode, mode and owner stay the same.
void write_bytes(const std::filesystem::path& path, std::string_view bytes);
/// Writes the file, whether or not it exists, with the mode of the store's files.
void plant_file(const std::filesystem::path& path, std::string_view bytes);
std::vector<std::string> names_in(const std::filesystem::path& folder);
std::vector<std::string> names_with(const std::filesystem::path& folder, std::string_view part);
void make_older(const std::filesystem::path& path, int64_t seconds);

/// Starts `body` in a child process. The child ends with status 1 if an expectation failed in it.
pid_t start_child(const std::function<void()>& body);
/// Returns the status from waitpid().
int wait_for(pid_t child);
/// Runs `body` in a child process and expects that the child succeeds.
void run_in_child(const std::function<void()>& body);

}  // namespace reprise::compile
