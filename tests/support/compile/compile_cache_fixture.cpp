#include "tests/support/compile/compile_cache_fixture.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <system_error>

namespace reprise::compile {

TemporaryFolder::TemporaryFolder() {
  std::string name = testing::TempDir() + "/compile_cache_XXXXXX";
  if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

CacheKey example_key(std::string_view model) {
  return CacheKey().add("model", model).add("target", "x86-64 avx512").add("compiler", "7");
}

std::vector<CacheFile> tagged_files(uint64_t tag, size_t num_bytes) {
  std::vector<CacheFile> files = {
      {.name = "kernels.o"}, {.name = "empty"}, {.name = "program.txt"}};
  for (const size_t i : {size_t{0}, size_t{2}}) {
    uint64_t state = tag * 2 + i;
    files[i].bytes.assign(reinterpret_cast<const char*>(&tag), sizeof(tag));
    while (files[i].bytes.size() < num_bytes) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      files[i].bytes.push_back(static_cast<char>(state >> 56));
    }
  }
  return files;
}

uint64_t tag_of(const std::vector<CacheFile>& files, size_t num_bytes) {
  uint64_t tag = 0;
  if (files.empty() || files[0].bytes.size() < sizeof(tag)) throw std::runtime_error("no tag");
  std::memcpy(&tag, files[0].bytes.data(), sizeof(tag));
  if (files != tagged_files(tag, num_bytes)) throw std::runtime_error("a byte that nobody saved");
  return tag;
}

std::string read_bytes(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) throw std::runtime_error("cannot read " + path.string());
  return {std::istreambuf_iterator<char>(stream), {}};
}

void write_bytes(const std::filesystem::path& path, std::string_view bytes) {
  std::ofstream stream(path, std::ios::binary | std::ios::trunc);
  stream.write(bytes.data(), static_cast<std::streamsize>(bytes.size())).flush();
  if (!stream) throw std::runtime_error("cannot write " + path.string());
}

void plant_file(const std::filesystem::path& path, std::string_view bytes) {
  write_bytes(path, bytes);
  if (::chmod(path.c_str(), 0600) != 0) throw std::runtime_error("cannot chmod " + path.string());
}

std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> names_with(const std::filesystem::path& folder, std::string_view part) {
  std::vector<std::string> names = names_in(folder);
  std::erase_if(names, [&](const std::string& name) { return name.find(part) == name.npos; });
  return names;
}

void make_older(const std::filesystem::path& path, int64_t seconds) {
  struct stat status{};
  if (::lstat(path.c_str(), &status) != 0) throw std::runtime_error("no " + path.string());
  timespec times[2] = {status.st_atim, status.st_mtim};
  times[1].tv_sec -= seconds;
  if (::utimensat(AT_FDCWD, path.c_str(), times, AT_SYMLINK_NOFOLLOW) != 0) {
    throw std::runtime_error("cannot set the time of " + path.string());
  }
}

pid_t start_child(const std::function<void()>& body) {
  std::fflush(nullptr);  // otherwise the child would print the buffered text again
  const pid_t child = ::fork();
  if (child != 0) return child;
  try {
    body();
  } catch (const std::exception& error) {
    ADD_FAILURE() << error.what();
  }
  std::fflush(nullptr);
  ::_exit(testing::Test::HasFailure() ? 1 : 0);  // runs no destructors: the parent owns the folder
}

int wait_for(pid_t child) {
  int status = -1;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

void run_in_child(const std::function<void()>& body) {
  const int status = wait_for(start_child(body));
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0)
      << "child ended with wait status " << status;
}

}  // namespace reprise::compile
