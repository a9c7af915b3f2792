#include "reprise/compile/cache/compile_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <string>
#include <vector>

#include "reprise/compile/cache/cache_manifest.h"
#include "tests/support/compile/compile_cache_fixture.h"

namespace reprise::compile {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

mode_t mode_of(const fs::path& path) {
  struct stat status{};
  EXPECT_EQ(::lstat(path.c_str(), &status), 0) << path;
  return status.st_mode & 07777;
}

TEST(CompileCache, loads_the_bytes_and_the_order_that_were_saved) {
  const TemporaryFolder folder;
  CompileCache cache({.root = folder.path() / "a" / "b", .created_by = "test"});
  std::string every_byte;
  for (int i = 0; i < 256; ++i) every_byte.push_back(static_cast<char>(i));
  for (const std::vector<CacheFile>& files :
       {std::vector<CacheFile>{},
        std::vector<CacheFile>{{"z", every_byte}, {"a", ""}, {"manifest.json", "mine"}},
        std::vector<CacheFile>{{"large", std::string(1'000'000, '\xff')}}}) {
    const SaveOutcome saved = cache.save(example_key(), files);
    ASSERT_TRUE(saved.saved) << saved.reason;
    EXPECT_EQ(saved.reason, "");
    const LoadOutcome loaded = cache.load(example_key());
    ASSERT_TRUE(loaded.is_hit()) << loaded.reason;
    EXPECT_EQ(*loaded.files, files);
    EXPECT_EQ(loaded.reason, "");
  }
}

TEST(CompileCache, lies_below_the_hash_and_the_rank_and_is_private_whatever_the_umask) {
  const TemporaryFolder folder;
  const fs::path root = folder.path() / "made" / "by us";
  CompileCache cache({.root = root, .rank = 3});
  const mode_t umask = ::umask(0);
  const SaveOutcome saved = cache.save(example_key(), tagged_files(1));
  ::umask(umask);
  ASSERT_TRUE(saved.saved) << saved.reason;
  const fs::path entry = root / example_key().hash() / "rank_3";
  EXPECT_EQ(cache.entry_directory(example_key()), entry);
  for (const fs::path& path : {root.parent_path(), root, entry.parent_path(), entry}) {
    EXPECT_EQ(mode_of(path), 0700u) << path;
  }
  EXPECT_EQ(names_in(entry).size(), 4u);
  for (const std::string& name : names_in(entry)) EXPECT_EQ(mode_of(entry / name), 0600u) << name;
}

TEST(CompileCache, default_root_follows_the_xdg_specification) {
  EXPECT_EQ(default_cache_root("/h", ""), "/h/.cache/reprise/compile_cache");
  EXPECT_EQ(default_cache_root("/h", "/x"), "/x/reprise/compile_cache");
  EXPECT_EQ(default_cache_root("", "/x"), "/x/reprise/compile_cache");
  EXPECT_EQ(default_cache_root("/h", "relative"), "/h/.cache/reprise/compile_cache");
  EXPECT_EQ(default_cache_root("", ""), "");
  EXPECT_EQ(default_cache_root("relative", "relative"), "");
}

TEST(CompileCache, a_cache_dir_is_the_entry_s_own_folder_and_still_asks_for_the_key) {
  const TemporaryFolder folder;
  CompileCache cache({.root = "/nonexistent", .cache_dir = folder.path() / "mine"});
  ASSERT_TRUE(cache.save(example_key("a"), tagged_files(1)).saved);
  EXPECT_TRUE(fs::exists(folder.path() / "mine" / "rank_0" / "manifest.json"));
  EXPECT_TRUE(cache.load(example_key("a")).is_hit());
  EXPECT_EQ(cache.load(example_key("b")).miss, MissReason::key_mismatch);
  EXPECT_TRUE(cache.load(example_key("a")).is_hit()) << "asking with another key harms nothing";
  ASSERT_TRUE(cache.save(example_key("b"), tagged_files(2)).saved);
  EXPECT_EQ(tag_of(*cache.load(example_key("b")).files), 2u);
  EXPECT_EQ(cache.load(example_key("a")).miss, MissReason::key_mismatch);
}

TEST(CompileCache, ranks_and_keys_do_not_share_entries) {
  const TemporaryFolder folder;
  CompileCache rank_0({.root = folder.path()});
  CompileCache rank_1({.root = folder.path(), .rank = 1});
  ASSERT_TRUE(rank_0.save(example_key("a"), tagged_files(1)).saved);
  EXPECT_EQ(rank_1.load(example_key("a")).miss, MissReason::absent);
  EXPECT_EQ(rank_0.load(example_key("b")).miss, MissReason::absent);
  ASSERT_TRUE(rank_1.save(example_key("a"), tagged_files(2)).saved);
  EXPECT_EQ(tag_of(*rank_0.load(example_key("a")).files), 1u);
  EXPECT_EQ(tag_of(*rank_1.load(example_key("a")).files), 2u);
}

TEST(CompileCache, disabled_misses_and_touches_nothing) {
  const TemporaryFolder folder;
  CompileCache enabled({.root = folder.path() / "full"});
  ASSERT_TRUE(enabled.save(example_key(), tagged_files(1)).saved);
  std::vector<std::string> steps;
  const StepHook record = [&](std::string_view step) { return steps.emplace_back(step), 0; };
  for (const CompileCacheOptions& options :
       {CompileCacheOptions{
            .root = folder.path() / "full", .is_disabled = true, .step_hook = record},
        CompileCacheOptions{.step_hook = record}}) {
    CompileCache cache(options);
    const LoadOutcome loaded = cache.load(example_key());
    EXPECT_EQ(loaded.miss, MissReason::disabled);
    EXPECT_FALSE(loaded.is_hit());
    EXPECT_NE(loaded.reason, "");
    EXPECT_FALSE(cache.save(example_key(), tagged_files(2)).saved);
  }
  EXPECT_TRUE(steps.empty()) << steps.front();
}

TEST(CompileCache, looking_creates_nothing) {
  const TemporaryFolder folder;
  CompileCache cache({.root = folder.path() / "root"});
  EXPECT_EQ(cache.load(example_key()).miss, MissReason::absent);
  EXPECT_TRUE(names_in(folder.path()).empty());
}

TEST(CompileCache, the_same_entry_has_the_same_bytes_everywhere) {
  const TemporaryFolder folder;
  std::vector<std::string> trees;
  for (const char* name : {"a", "b"}) {
    CompileCache cache({.root = folder.path() / name, .created_by = "reprise 0.1.0"});
    ASSERT_TRUE(cache.save(example_key(), tagged_files(1)).saved);
    std::string& tree = trees.emplace_back();
    const fs::path entry = cache.entry_directory(example_key());
    for (const std::string& file : names_in(entry)) tree += file + read_bytes(entry / file);
  }
  EXPECT_EQ(trees[0], trees[1]);
}

TEST(CompileCache, refuses_files_that_cannot_make_an_entry) {
  const TemporaryFolder folder;
  CompileCache cache({.root = folder.path() / "root", .max_entry_bytes = 1000});
  const auto reason = [&](std::vector<CacheFile> files) {
    const SaveOutcome outcome = cache.save(example_key(), files);
    EXPECT_FALSE(outcome.saved);
    return outcome.reason;
  };
  EXPECT_THAT(reason({{"../a", ""}}), HasSubstr("cannot name"));
  EXPECT_THAT(reason({{"a", ""}, {"a", ""}}), HasSubstr("two files named 'a'"));
  EXPECT_THAT(reason({{"a", std::string(500, 'a')}, {"b", std::string(501, 'b')}}),
              HasSubstr("at most 1000"));
  EXPECT_THAT(reason(std::vector<CacheFile>(kMaxCacheFiles + 1)), HasSubstr("at most 1024"));
  EXPECT_FALSE(fs::exists(folder.path() / "root"));
  EXPECT_TRUE(cache.save(example_key(), {{{"a", std::string(1000, 'a')}}}).saved);
  const CacheKey endless = CacheKey().add("ir", std::string(kMaxManifestBytes, 'x'));
  EXPECT_THAT(cache.save(endless, {}).reason, HasSubstr("manifest would have"));
}

TEST(CompileCache, an_entry_of_another_key_under_the_same_hash_is_a_miss_and_gives_way) {
  const TemporaryFolder folder;
  CompileCache cache({.root = folder.path()});
  ASSERT_TRUE(cache.save(example_key("a"), tagged_files(1)).saved);
  // Moves the entry of key a to the folder of key b, as if both keys had the same hash.
  fs::create_directory(folder.path() / example_key("b").hash());
  fs::permissions(folder.path() / example_key("b").hash(), fs::perms::owner_all);
  fs::rename(cache.entry_directory(example_key("a")), cache.entry_directory(example_key("b")));
  const LoadOutcome loaded = cache.load(example_key("b"));
  EXPECT_EQ(loaded.miss, MissReason::key_mismatch);
  EXPECT_FALSE(loaded.quarantined);
  ASSERT_TRUE(cache.save(example_key("b"), tagged_files(2)).saved);
  EXPECT_EQ(tag_of(*cache.load(example_key("b")).files), 2u);
}

TEST(CompileCache, an_entry_of_another_version_stays_until_it_is_replaced) {
  const TemporaryFolder folder;
  CompileCache cache({.root = folder.path()});
  ASSERT_TRUE(cache.save(example_key(), tagged_files(1)).saved);
  const fs::path manifest = cache.entry_directory(example_key()) / "manifest.json";
  std::string text = read_bytes(manifest);
  text.replace(text.find("\"version\": 1"), 12, "\"version\": 9");
  write_bytes(manifest, text);
  EXPECT_EQ(cache.load(example_key()).miss, MissReason::version);
  EXPECT_EQ(read_bytes(manifest), text);
  ASSERT_TRUE(cache.save(example_key(), tagged_files(2)).saved);
  EXPECT_EQ(tag_of(*cache.load(example_key()).files), 2u);
}

TEST(CompileCache, a_save_sweeps_what_dead_writers_and_old_entries_left_and_nothing_else) {
  const TemporaryFolder folder;
  CompileCache cache({.root = folder.path(), .stale_after = std::chrono::seconds(100)});
  ASSERT_TRUE(cache.save(example_key(), tagged_files(1)).saved);
  const fs::path entry = cache.entry_directory(example_key());
  const std::vector<std::string> first = names_with(entry, "kernels.o.");
  ASSERT_EQ(first.size(), 1u);
  for (const char* name :
       {".tmp-old", ".tmp-young", "notes of a person", "manifest.json.quarantine-1"}) {
    plant_file(entry / name, "x");
    if (name != std::string(".tmp-young")) make_older(entry / name, 150);
  }
  ASSERT_TRUE(cache.save(example_key(), tagged_files(2)).saved);
  EXPECT_FALSE(fs::exists(entry / ".tmp-old"));
  EXPECT_TRUE(fs::exists(entry / ".tmp-young"));
  EXPECT_TRUE(fs::exists(entry / first[0])) << "a reader may still be at it";

  make_older(entry / first[0], 150);
  ASSERT_TRUE(cache.save(example_key(), tagged_files(3)).saved);
  EXPECT_FALSE(fs::exists(entry / first[0]));
  EXPECT_TRUE(fs::exists(entry / "notes of a person"));
  EXPECT_TRUE(fs::exists(entry / "manifest.json.quarantine-1"));
  EXPECT_EQ(tag_of(*cache.load(example_key()).files), 3u);
}

TEST(CompileCache, counts_what_happened) {
  const TemporaryFolder folder;
  CompileCache cache({.root = folder.path()});
  (void)cache.load(example_key());
  ASSERT_TRUE(cache.save(example_key(), tagged_files(1)).saved);
  (void)cache.load(example_key());
  (void)cache.load(example_key());
  write_bytes(cache.entry_directory(example_key()) / "manifest.json", "{");
  (void)cache.load(example_key());
  (void)cache.save(example_key(), {{{"..", ""}}});
  const CompileCacheCounters& counters = cache.counters();
  EXPECT_EQ(counters.num_hits, 2u);
  EXPECT_EQ(counters.misses(MissReason::absent), 1u);
  EXPECT_EQ(counters.misses(MissReason::broken), 1u);
  EXPECT_EQ(counters.num_quarantined, 1u);
  EXPECT_EQ(counters.num_saved, 1u);
  EXPECT_EQ(counters.num_not_saved, 1u);
}

TEST(CompileCache, every_reason_has_its_name) {
  EXPECT_EQ(to_string(MissReason::disabled), "disabled");
  EXPECT_EQ(to_string(MissReason::key_mismatch), "key_mismatch");
  EXPECT_EQ(static_cast<size_t>(MissReason::key_mismatch) + 1, kNumMissReasons);
}

}  // namespace
}  // namespace reprise::compile
