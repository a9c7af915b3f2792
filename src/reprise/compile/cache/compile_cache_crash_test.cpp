// A save is killed, or gets an error, at each of its calls to the file system.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <cerrno>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "reprise/compile/cache/compile_cache.h"
#include "tests/support/compile/compile_cache_fixture.h"

namespace reprise::compile {
namespace {

namespace fs = std::filesystem;

// A file of this size takes more than one write call.
constexpr size_t kFileBytes = 600'000;

/// Runs `action` before the file system call number `index`, counted from 0.
StepHook at_step(int index, std::function<int()> action) {
  return [index, action = std::move(action), next = 0](std::string_view) mutable {
    return next++ == index ? action() : 0;
  };
}

StepHook kill_at(int index) {
  return at_step(index, [] { return ::raise(SIGKILL); });
}

std::optional<uint64_t> loaded_tag(const fs::path& root) {
  CompileCache cache({.root = root});
  const LoadOutcome outcome = cache.load(example_key());
  if (outcome.is_hit()) return tag_of(*outcome.files, kFileBytes);
  EXPECT_EQ(outcome.miss, MissReason::absent) << outcome.reason;
  return std::nullopt;
}

/// Expects that another process can save afterwards, and that this save removes the leftovers of
/// the killed one.
void expect_heals(const fs::path& root) {
  CompileCache cache({.root = root, .stale_after = std::chrono::seconds(0)});
  const SaveOutcome saved = cache.save(example_key(), tagged_files(3, kFileBytes));
  ASSERT_TRUE(saved.saved) << saved.reason;
  EXPECT_EQ(loaded_tag(root), 3u);
  EXPECT_EQ(names_in(cache.entry_directory(example_key())).size(), 4u);
}

/// \returns the number of steps at which the save was killed
int kill_a_save_at_each_step(std::optional<uint64_t> old_tag) {
  bool was_new = false;
  for (int step = 0;; ++step) {
    SCOPED_TRACE(step);
    const TemporaryFolder folder;
    const fs::path root = folder.path() / "root";
    if (old_tag) {
      CompileCache cache({.root = root});
      EXPECT_TRUE(cache.save(example_key(), tagged_files(*old_tag, kFileBytes)).saved);
    }
    const int status = wait_for(start_child([&] {
      CompileCache cache({.root = root, .step_hook = kill_at(step)});
      EXPECT_TRUE(cache.save(example_key(), tagged_files(2, kFileBytes)).saved);
    }));
    const std::optional<uint64_t> tag = loaded_tag(root);
    EXPECT_TRUE(tag == old_tag || tag == 2u);
    EXPECT_FALSE(was_new && tag != 2u) << "once published, published at every later step";
    was_new = tag == 2u;
    expect_heals(root);
    if (testing::Test::HasFailure()) return step;
    if (WIFEXITED(status)) {
      EXPECT_EQ(WEXITSTATUS(status), 0);
      EXPECT_TRUE(was_new);
      return step;
    }
    EXPECT_EQ(WTERMSIG(status), SIGKILL);
  }
}

TEST(CompileCacheCrash, a_first_save_killed_at_any_step_leaves_nothing_or_the_entry) {
  EXPECT_GE(kill_a_save_at_each_step(std::nullopt), 12);
}

TEST(CompileCacheCrash, a_second_save_killed_at_any_step_leaves_the_old_or_the_new_entry) {
  EXPECT_GE(kill_a_save_at_each_step(1), 12);
}

TEST(CompileCacheCrash, a_reader_killed_while_it_puts_a_broken_entry_aside_harms_nothing) {
  for (int step = 0;; ++step) {
    SCOPED_TRACE(step);
    const TemporaryFolder folder;
    CompileCache cache({.root = folder.path()});
    ASSERT_TRUE(cache.save(example_key(), tagged_files(1)).saved);
    write_bytes(cache.entry_directory(example_key()) / "manifest.json", "{");
    const int status = wait_for(start_child([&] {
      CompileCache reader({.root = folder.path(), .step_hook = kill_at(step)});
      EXPECT_EQ(reader.load(example_key()).miss, MissReason::broken);
    }));
    EXPECT_FALSE(cache.load(example_key()).is_hit());
    ASSERT_TRUE(cache.save(example_key(), tagged_files(2)).saved);
    ASSERT_EQ(tag_of(cache.load(example_key()).files.value()), 2u);
    if (WIFEXITED(status)) {
      EXPECT_EQ(WEXITSTATUS(status), 0);
      EXPECT_GE(step, 8);
      break;
    }
  }
}

// A test cannot switch the power off. The order of the system calls protects the entry, so the test
// checks their order.
TEST(CompileCacheCrash, bytes_are_on_disk_before_a_name_leads_to_them_and_the_manifest_comes_last) {
  const TemporaryFolder folder;
  std::vector<std::string> steps;
  CompileCache cache({.root = folder.path(), .step_hook = [&](std::string_view step) {
                        steps.emplace_back(step);
                        return 0;
                      }});
  ASSERT_TRUE(cache.save(example_key(), tagged_files(1)).saved);
  std::erase_if(steps, [](const std::string& step) {
    return step != "create file" && step != "sync file" && step != "rename" &&
           step != "sync directory";
  });
  const std::vector<std::string> expected = {"sync directory",
                                             "sync directory",  // the two folders that were created
                                             "create file",
                                             "sync file",
                                             "create file",
                                             "sync file",
                                             "create file",
                                             "sync file",
                                             "create file",
                                             "sync file",
                                             "rename",
                                             "rename",
                                             "rename",
                                             "sync directory",
                                             "rename",
                                             "sync directory"};
  EXPECT_EQ(steps, expected);
}

const std::vector<int> kErrors = {EIO, ENOSPC, EROFS, EACCES, ESTALE, ENOENT, EEXIST, EINVAL};

TEST(CompileCacheCrash, each_error_at_each_step_of_a_save_is_an_answer) {
  for (const int error : kErrors) {
    int num_not_saved = 0;
    bool was_injected = true;
    for (int step = 0; was_injected; ++step) {
      SCOPED_TRACE(testing::Message() << "errno " << error << " at step " << step);
      const TemporaryFolder folder;
      const fs::path root = folder.path() / "root";
      CompileCache good({.root = root});
      const bool has_old = step % 2 == 1;
      if (has_old) {
        ASSERT_TRUE(good.save(example_key(), tagged_files(1)).saved);
      }
      was_injected = false;
      CompileCache failing({.root = root, .step_hook = at_step(step, [&] {
                                            was_injected = true;
                                            return error;
                                          })});
      const SaveOutcome saved = failing.save(example_key(), tagged_files(2));
      EXPECT_EQ(saved.reason.empty(), saved.saved);
      num_not_saved += !saved.saved;
      const LoadOutcome loaded = good.load(example_key());
      if (saved.saved) {
        ASSERT_TRUE(loaded.is_hit()) << loaded.reason;
        EXPECT_EQ(tag_of(*loaded.files), 2u);
      } else {
        EXPECT_EQ(loaded.is_hit(), has_old) << loaded.reason;
        if (loaded.is_hit()) {
          EXPECT_EQ(tag_of(*loaded.files), 1u);
        }
        const fs::path entry = good.entry_directory(example_key());
        if (fs::exists(entry)) {
          EXPECT_TRUE(names_with(entry, ".tmp-").empty());
        }
      }
      ASSERT_TRUE(good.save(example_key(), tagged_files(3)).saved);
      ASSERT_EQ(tag_of(good.load(example_key()).files.value()), 3u);
    }
    EXPECT_GE(num_not_saved, 12) << "errno " << error;
  }
}

TEST(CompileCacheCrash, each_error_at_each_step_of_a_load_is_an_answer_and_harms_no_good_entry) {
  const TemporaryFolder folder;
  CompileCache good({.root = folder.path()});
  ASSERT_TRUE(good.save(example_key(), tagged_files(1)).saved);
  for (const int error : kErrors) {
    bool was_injected = true;
    for (int step = 0; was_injected; ++step) {
      SCOPED_TRACE(testing::Message() << "errno " << error << " at step " << step);
      was_injected = false;
      CompileCache failing({.root = folder.path(), .step_hook = at_step(step, [&] {
                                                     was_injected = true;
                                                     return error;
                                                   })});
      const LoadOutcome outcome = failing.load(example_key());
      if (outcome.is_hit()) {
        ASSERT_EQ(tag_of(*outcome.files), 1u);
      }
      // If a listed file is missing (ENOENT), the entry is broken, and load() reads the manifest a
      // second time to be sure. Other errors say nothing about the content.
      if (error == ENOENT) {
        EXPECT_TRUE(outcome.is_hit() || was_injected);
        ASSERT_TRUE(good.save(example_key(), tagged_files(1)).saved);
      } else {
        EXPECT_EQ(outcome.is_hit(), !was_injected);
        EXPECT_FALSE(outcome.quarantined);
      }
      ASSERT_TRUE(good.load(example_key()).is_hit());
    }
  }
}

}  // namespace
}  // namespace reprise::compile
