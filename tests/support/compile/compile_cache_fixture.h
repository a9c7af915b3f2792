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

/// A new folder, removed with everything in it at the end.
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

/// Any user that is neither the superuser nor the one who runs the tests: "nobody" on Linux.
inline constexpr uid_t kForeignUser = 65534;

inline bool is_superuser() { return ::geteuid() == 0; }

CacheKey example_key(std::string_view model = "llama");

/// Three files, one of them empty, whose bytes follow from `tag`.
std::vector<CacheFile> tagged_files(uint64_t tag, size_t num_bytes = 300);
/// The tag of files that are what tagged_files() made; throws std::runtime_error on any other byte.
uint64_t tag_of(const std::vector<CacheFile>& files, size_t num_bytes = 300);

std::string read_bytes(const std::filesystem::path& path);
/// In place, like a disk that goes bad: same inode, mode and owner.
void write_bytes(const std::filesystem::path& path, std::string_view bytes);
/// With the mode of the store's own files, whether or not there was one.
void plant_file(const std::filesystem::path& path, std::string_view bytes);
std::vector<std::string> names_in(const std::filesystem::path& folder);
std::vector<std::string> names_with(const std::filesystem::path& folder, std::string_view part);
void make_older(const std::filesystem::path& path, int64_t seconds);

/// Starts `body` in a child process. It ends with status 1 when an expectation failed in it.
pid_t start_child(const std::function<void()>& body);
/// What waitpid() says.
int wait_for(pid_t child);
/// Runs `body` in a child and expects that it ends well.
void run_in_child(const std::function<void()>& body);

}  // namespace reprise::compile
