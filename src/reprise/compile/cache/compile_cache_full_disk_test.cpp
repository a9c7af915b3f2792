// Tests with real file size limits and full file systems, each in a child process.

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <cerrno>
#include <functional>
#include <string>

#include "reprise/compile/cache/compile_cache.h"
#include "tests/support/compile/compile_cache_fixture.h"

namespace reprise::compile {
namespace {

namespace fs = std::filesystem;

constexpr size_t kLargeFileBytes = 300'000;
constexpr int kNotPermitted = 77;

TEST(CompileCacheFullDisk, a_limit_on_file_size_means_not_saved_and_the_old_entry_stays) {
  for (const rlim_t limit : {0u, 1u, 100u, 4'096u, 262'144u, 299'999u}) {
    SCOPED_TRACE(limit);
    const TemporaryFolder folder;
    CompileCache cache({.root = folder.path()});
    ASSERT_TRUE(cache.save(example_key("old"), tagged_files(1, kLargeFileBytes)).saved);
    run_in_child([&] {
      ::signal(SIGXFSZ, SIG_IGN);
      const rlimit limits{.rlim_cur = limit, .rlim_max = limit};
      ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limits), 0);
      for (const char* model : {"old", "new"}) {
        const SaveOutcome saved = cache.save(example_key(model), tagged_files(2, kLargeFileBytes));
        ASSERT_FALSE(saved.saved);
        ASSERT_NE(saved.reason.find("File too large"), std::string::npos) << saved.reason;
      }
    });
    EXPECT_EQ(tag_of(cache.load(example_key("old")).files.value(), kLargeFileBytes), 1u);
    EXPECT_EQ(cache.load(example_key("new")).miss, MissReason::absent);
    EXPECT_TRUE(names_in(cache.entry_directory(example_key("new"))).empty());
    EXPECT_TRUE(cache.save(example_key("new"), tagged_files(2, kLargeFileBytes)).saved);
  }
}

/// Runs `body` in a child process that mounts a small file system at `place`. \returns false if the
/// process may not mount file systems
bool run_with_mount(const fs::path& place, const std::function<void()>& body) {
  const int status = wait_for(start_child([&] {
    if (::unshare(CLONE_NEWNS) != 0 ||
        ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("tmpfs", place.c_str(), "tmpfs", 0, "size=1m,mode=0700") != 0) {
      ::_exit(kNotPermitted);
    }
    body();
  }));
  if (WIFEXITED(status) && WEXITSTATUS(status) == kNotPermitted) return false;
  EXPECT_EQ(status, 0);
  return true;
}

TEST(CompileCacheFullDisk, a_full_disk_means_not_saved_and_the_old_entry_stays) {
  const TemporaryFolder folder;
  const bool was_permitted = run_with_mount(folder.path(), [&] {
    CompileCache cache({.root = folder.path() / "root", .stale_after = std::chrono::seconds(0)});
    constexpr size_t kThird =
        350'000;  // bytes: each of the two large files takes a third of the file system
    ASSERT_TRUE(cache.save(example_key(), tagged_files(1, kLargeFileBytes / 2)).saved);
    const fs::path entry = cache.entry_directory(example_key());
    for (uint64_t round = 0; round < 5; ++round) {
      const SaveOutcome saved = cache.save(example_key(), tagged_files(2 + round, 2 * kThird));
      ASSERT_FALSE(saved.saved);
      ASSERT_NE(saved.reason.find("No space left"), std::string::npos) << saved.reason;
      ASSERT_TRUE(names_with(entry, ".tmp-").empty());
      ASSERT_EQ(tag_of(cache.load(example_key()).files.value(), kLargeFileBytes / 2), 1u);
    }
    // Fill the disk to the last byte, so that not even a manifest fits.
    for (size_t num_bytes = 4096; num_bytes > 0; num_bytes /= 4) {
      std::string filler;
      for (int i = 0; i < 400; ++i) {
        try {
          plant_file(folder.path() / ("fill" + std::to_string(num_bytes) + "-" + std::to_string(i)),
                     std::string(num_bytes, 'x'));
        } catch (const std::exception&) {
          break;
        }
      }
    }
    ASSERT_FALSE(cache.save(example_key(), tagged_files(9, 0)).saved);
    ASSERT_FALSE(cache.save(example_key("new"), {}).saved);
    ASSERT_EQ(tag_of(cache.load(example_key()).files.value(), kLargeFileBytes / 2), 1u);
    for (const std::string& name : names_with(folder.path(), "fill"))
      fs::remove(folder.path() / name);
    ASSERT_TRUE(cache.save(example_key(), tagged_files(10, kLargeFileBytes / 2)).saved);
    ASSERT_EQ(tag_of(cache.load(example_key()).files.value(), kLargeFileBytes / 2), 10u);
  });
  if (!was_permitted) GTEST_SKIP() << "mounting is not permitted here";
}

TEST(CompileCacheFullDisk, a_read_only_file_system_is_read_and_not_saved_to) {
  const TemporaryFolder folder;
  const bool was_permitted = run_with_mount(folder.path(), [&] {
    CompileCache cache({.root = folder.path() / "root"});
    ASSERT_TRUE(cache.save(example_key(), tagged_files(1)).saved);
    ASSERT_TRUE(cache.save(example_key("broken"), tagged_files(1)).saved);
    write_bytes(cache.entry_directory(example_key("broken")) / "manifest.json", "{");
    ASSERT_EQ(::mount(nullptr, folder.path().c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr), 0);
    EXPECT_TRUE(cache.load(example_key()).is_hit());
    for (const char* model : {"llama", "new"}) {
      const SaveOutcome saved = cache.save(example_key(model), tagged_files(2));
      EXPECT_FALSE(saved.saved);
      EXPECT_NE(saved.reason.find("Read-only"), std::string::npos) << saved.reason;
    }
    const LoadOutcome broken = cache.load(example_key("broken"));
    EXPECT_EQ(broken.miss, MissReason::broken);
    EXPECT_FALSE(broken.quarantined);
    EXPECT_EQ(cache.load(example_key("new")).miss, MissReason::absent);
    CompileCache elsewhere({.root = folder.path() / "x" / "y"});
    EXPECT_FALSE(elsewhere.save(example_key(), tagged_files(2)).saved);
  });
  if (!was_permitted) GTEST_SKIP() << "mounting is not permitted here";
}

}  // namespace
}  // namespace reprise::compile
