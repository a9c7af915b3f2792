// Tests with folders that another user could have written, and with missing permissions.

#include <grp.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <functional>
#include <string>

#include "reprise/compile/cache/compile_cache.h"
#include "tests/support/compile/compile_cache_fixture.h"

namespace reprise::compile {
namespace {

namespace fs = std::filesystem;

class CompileCacheAccess : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(cache_.save(example_key(), tagged_files(1)).saved);
    ASSERT_TRUE(cache_.load(example_key()).is_hit());
  }

  /// Expects that the cache neither reads nor writes the entry, and changes no file in its folder.
  void expect_ignored(const std::string& part_of_reason) {
    const auto before = names_in(entry_);
    const LoadOutcome loaded = cache_.load(example_key());
    EXPECT_EQ(loaded.miss, MissReason::foreign) << loaded.reason;
    EXPECT_FALSE(loaded.is_hit());
    EXPECT_NE(loaded.reason.find(part_of_reason), std::string::npos) << loaded.reason;
    const SaveOutcome saved = cache_.save(example_key(), tagged_files(2));
    EXPECT_FALSE(saved.saved);
    EXPECT_NE(saved.reason.find(part_of_reason), std::string::npos) << saved.reason;
    EXPECT_EQ(names_in(entry_), before);
  }

  TemporaryFolder folder_;
  fs::path root_ = folder_.path() / "root";
  CompileCache cache_{{.root = root_}};
  fs::path entry_ = cache_.entry_directory(example_key());
};

TEST_F(CompileCacheAccess, folders_that_others_may_write_to_are_ignored) {
  for (const fs::path& path : {root_, entry_.parent_path(), entry_}) {
    for (const mode_t mode : {0720, 0702, 0777, 0770, 01777}) {
      SCOPED_TRACE(testing::Message() << path << " " << std::oct << mode);
      ASSERT_EQ(::chmod(path.c_str(), mode), 0);
      expect_ignored("others may write");
    }
    for (const mode_t mode : {0700, 0755, 0711}) {
      ASSERT_EQ(::chmod(path.c_str(), mode), 0);
      EXPECT_TRUE(cache_.load(example_key()).is_hit()) << "reading harms nothing";
    }
  }
}

TEST_F(CompileCacheAccess, folders_of_another_user_are_ignored) {
  if (!is_superuser()) GTEST_SKIP() << "only the superuser can give a folder away";
  for (const fs::path& path : {root_, entry_.parent_path(), entry_}) {
    SCOPED_TRACE(path);
    ASSERT_EQ(::chown(path.c_str(), kForeignUser, kForeignUser), 0);
    expect_ignored("owned by user 65534");
    ASSERT_EQ(::chown(path.c_str(), ::geteuid(), ::getegid()), 0);
  }
  EXPECT_TRUE(cache_.load(example_key()).is_hit());
}

TEST_F(CompileCacheAccess, files_of_another_user_or_open_to_others_are_not_read_and_are_replaced) {
  for (const std::string& name : names_in(entry_)) {
    SCOPED_TRACE(name);
    ASSERT_EQ(::chmod((entry_ / name).c_str(), 0622), 0);
    const LoadOutcome open = cache_.load(example_key());
    EXPECT_EQ(open.miss, MissReason::foreign) << open.reason;
    EXPECT_FALSE(open.quarantined);
    ASSERT_EQ(::chmod((entry_ / name).c_str(), 0600), 0);
    EXPECT_TRUE(cache_.load(example_key()).is_hit());
    if (is_superuser()) {
      ASSERT_EQ(::chown((entry_ / name).c_str(), kForeignUser, kForeignUser), 0);
      EXPECT_EQ(cache_.load(example_key()).miss, MissReason::foreign);
      ASSERT_TRUE(cache_.save(example_key(), tagged_files(1)).saved);
      EXPECT_TRUE(cache_.load(example_key()).is_hit());
    }
  }
}

TEST_F(CompileCacheAccess, a_link_to_a_folder_of_ours_is_followed_at_the_root_only) {
  const fs::path link = folder_.path() / "link";
  fs::create_directory_symlink(root_, link);
  for (const fs::path& path : {link, link / ""}) {
    CompileCache linked({.root = path});
    EXPECT_TRUE(linked.load(example_key()).is_hit());
    EXPECT_TRUE(linked.save(example_key(), tagged_files(1)).saved);
  }
  for (const fs::path& inner : {entry_, entry_.parent_path()}) {
    fs::rename(inner, folder_.path() / "moved");
    fs::create_directory_symlink(folder_.path() / "moved", inner);
    expect_ignored("is a link");
    fs::remove(inner);
    fs::rename(folder_.path() / "moved", inner);
  }
}

TEST_F(CompileCacheAccess, links_that_lead_to_or_come_from_others_are_ignored) {
  if (!is_superuser()) GTEST_SKIP() << "only the superuser can give a link away";
  const fs::path link = folder_.path() / "link";
  fs::create_directory_symlink(root_, link);
  for (const fs::path& path : {link, link / ""}) {
    CompileCache linked({.root = path});
    ASSERT_EQ(::lchown(link.c_str(), kForeignUser, kForeignUser), 0);
    EXPECT_EQ(linked.load(example_key()).miss, MissReason::foreign);
    EXPECT_FALSE(linked.save(example_key(), tagged_files(2)).saved);
    ASSERT_EQ(::lchown(link.c_str(), ::geteuid(), ::getegid()), 0);
    EXPECT_TRUE(linked.load(example_key()).is_hit());
    ASSERT_EQ(::chown(root_.c_str(), kForeignUser, kForeignUser), 0);
    EXPECT_EQ(linked.load(example_key()).miss, MissReason::foreign);
    ASSERT_EQ(::chown(root_.c_str(), ::geteuid(), ::getegid()), 0);
  }
}

TEST_F(CompileCacheAccess, a_file_in_place_of_any_folder_is_an_answer) {
  for (const fs::path& path : {entry_, entry_.parent_path(), root_, folder_.path() / "x"}) {
    SCOPED_TRACE(path);
    fs::remove_all(path);
    plant_file(path, "not a folder");
    CompileCache cache({.root = path.filename() == "x" ? path / "root" : root_});
    const LoadOutcome loaded = cache.load(example_key());
    EXPECT_EQ(loaded.miss, MissReason::unreadable) << loaded.reason;
    const SaveOutcome saved = cache.save(example_key(), tagged_files(2));
    EXPECT_FALSE(saved.saved);
    EXPECT_NE(saved.reason, "");
    fs::remove(path);
    EXPECT_TRUE(cache.save(example_key(), tagged_files(2)).saved);
    EXPECT_TRUE(cache.load(example_key()).is_hit());
  }
}

TEST_F(CompileCacheAccess, a_dangling_or_circular_link_at_the_root_is_an_answer) {
  fs::create_symlink("nowhere", folder_.path() / "dangling");
  fs::create_symlink("circular", folder_.path() / "circular");
  for (const char* name : {"dangling", "circular"}) {
    CompileCache cache({.root = folder_.path() / name});
    EXPECT_FALSE(cache.load(example_key()).is_hit());
    EXPECT_NE(cache.save(example_key(), tagged_files(2)).reason, "");
  }
}

/// Runs `body` as a user to whom permissions apply. Permissions do not apply to root.
void run_without_privileges(const fs::path& everything, const std::function<void()>& body) {
  run_in_child([&] {
    if (is_superuser()) {
      for (const auto& entry : fs::recursive_directory_iterator(everything)) {
        ASSERT_EQ(::lchown(entry.path().c_str(), kForeignUser, kForeignUser), 0);
      }
      ASSERT_EQ(::chown(everything.c_str(), kForeignUser, kForeignUser), 0);
      ASSERT_EQ(::setgroups(0, nullptr), 0);
      ASSERT_EQ(::setgid(kForeignUser), 0);
      ASSERT_EQ(::setuid(kForeignUser), 0);
    }
    body();
  });
}

TEST_F(CompileCacheAccess, a_folder_without_write_permission_is_read_and_not_saved_to) {
  run_without_privileges(folder_.path(), [&] {
    ASSERT_EQ(::chmod(entry_.c_str(), 0500), 0);
    EXPECT_TRUE(cache_.load(example_key()).is_hit());
    const SaveOutcome saved = cache_.save(example_key(), tagged_files(2));
    EXPECT_FALSE(saved.saved);
    EXPECT_NE(saved.reason.find("Permission denied"), std::string::npos) << saved.reason;
    // The entry is broken, but the folder's permissions do not allow moving it aside.
    write_bytes(entry_ / "manifest.json", "{");
    const LoadOutcome broken = cache_.load(example_key());
    EXPECT_EQ(broken.miss, MissReason::broken);
    EXPECT_FALSE(broken.quarantined);
    ASSERT_EQ(::chmod(entry_.c_str(), 0700), 0);
    EXPECT_TRUE(cache_.save(example_key(), tagged_files(2)).saved);
    EXPECT_TRUE(cache_.load(example_key()).is_hit());
  });
}

TEST_F(CompileCacheAccess, folders_and_files_without_any_permission_are_an_answer) {
  run_without_privileges(folder_.path(), [&] {
    for (const fs::path& path : {entry_, entry_.parent_path(), root_}) {
      SCOPED_TRACE(path);
      ASSERT_EQ(::chmod(path.c_str(), 0), 0);
      EXPECT_EQ(cache_.load(example_key()).miss, MissReason::unreadable);
      EXPECT_FALSE(cache_.save(example_key(), tagged_files(2)).saved);
      ASSERT_EQ(::chmod(path.c_str(), 0700), 0);
      EXPECT_TRUE(cache_.load(example_key()).is_hit());
    }
    for (const std::string& name : names_in(entry_)) {
      SCOPED_TRACE(name);
      ASSERT_EQ(::chmod((entry_ / name).c_str(), 0), 0);
      EXPECT_EQ(cache_.load(example_key()).miss, MissReason::unreadable);
      ASSERT_EQ(::chmod((entry_ / name).c_str(), 0600), 0);
      EXPECT_TRUE(cache_.load(example_key()).is_hit());
    }
  });
}

TEST_F(CompileCacheAccess, a_root_that_cannot_be_created_is_an_answer) {
  run_without_privileges(folder_.path(), [&] {
    ASSERT_EQ(::chmod(folder_.path().c_str(), 0500), 0);
    CompileCache cache({.root = folder_.path() / "a" / "b"});
    EXPECT_EQ(cache.load(example_key()).miss, MissReason::absent);
    const SaveOutcome saved = cache.save(example_key(), tagged_files(2));
    EXPECT_FALSE(saved.saved);
    EXPECT_NE(saved.reason.find("Permission denied"), std::string::npos) << saved.reason;
    ASSERT_EQ(::chmod(folder_.path().c_str(), 0700), 0);
    EXPECT_TRUE(cache.save(example_key(), tagged_files(2)).saved);
  });
}

}  // namespace
}  // namespace reprise::compile
