// Eight writer processes and two reader processes use one entry at the same time.

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <atomic>
#include <new>
#include <string>
#include <vector>

#include "reprise/compile/cache/compile_cache.h"
#include "tests/support/compile/compile_cache_fixture.h"

namespace reprise::compile {
namespace {

constexpr uint64_t kNumWriters = 8;
constexpr uint64_t kNumReaders = 2;
constexpr size_t kSmallFileBytes = 5'000;

/// Counters in memory that all processes share.
struct Progress {
  std::atomic<uint64_t> num_saved{0};
  std::atomic<uint64_t> num_hits{0};
  std::atomic<uint64_t> num_misses{0};
  std::atomic<bool> is_over{false};
};

class SharedProgress {
 public:
  SharedProgress()
      : memory_(::mmap(
            nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {
    new (memory_) Progress;
  }
  SharedProgress(const SharedProgress&) = delete;
  SharedProgress& operator=(const SharedProgress&) = delete;
  ~SharedProgress() { ::munmap(memory_, sizeof(Progress)); }
  Progress* operator->() const { return static_cast<Progress*>(memory_); }

 private:
  void* memory_;
};

/// Every hit must hold the files of one single save; tag_of() checks this.
void race(CompileCacheOptions options, uint64_t num_rounds, const SharedProgress& progress) {
  std::vector<pid_t> writers;
  std::vector<pid_t> readers;
  for (uint64_t writer = 0; writer < kNumWriters; ++writer) {
    writers.push_back(start_child([&] {
      CompileCache cache(options);
      for (uint64_t round = 0; round < num_rounds; ++round) {
        const uint64_t tag = 1 + writer * num_rounds + round;
        progress->num_saved += cache.save(example_key(), tagged_files(tag, kSmallFileBytes)).saved;
      }
    }));
  }
  for (uint64_t reader = 0; reader < kNumReaders; ++reader) {
    readers.push_back(start_child([&] {
      CompileCache cache(options);
      while (!progress->is_over) {
        const LoadOutcome outcome = cache.load(example_key());
        if (outcome.is_hit()) {
          ASSERT_LE(tag_of(*outcome.files, kSmallFileBytes), kNumWriters * num_rounds);
        } else {
          ++progress->num_misses;
        }
        progress->num_hits += outcome.is_hit();
      }
    }));
  }
  for (const pid_t writer : writers) EXPECT_EQ(wait_for(writer), 0);
  progress->is_over = true;
  for (const pid_t reader : readers) EXPECT_EQ(wait_for(reader), 0);
}

TEST(CompileCacheRace, eight_writers_all_succeed_and_readers_always_see_one_whole_entry) {
  constexpr uint64_t kNumRounds = 100;
  const TemporaryFolder folder;
  const CompileCacheOptions options{.root = folder.path() / "root"};
  CompileCache cache(options);
  ASSERT_TRUE(cache.save(example_key(), tagged_files(0, kSmallFileBytes)).saved);
  const SharedProgress progress;
  race(options, kNumRounds, progress);
  EXPECT_EQ(progress->num_saved, kNumWriters * kNumRounds);
  EXPECT_EQ(progress->num_misses, 0u) << "there is an entry at every moment";
  EXPECT_GT(progress->num_hits, 100u);
  EXPECT_GT(tag_of(cache.load(example_key()).files.value(), kSmallFileBytes), 0u);
  EXPECT_TRUE(names_with(cache.entry_directory(example_key()), ".tmp-").empty());
  EXPECT_TRUE(names_with(cache.entry_directory(example_key()), "quarantine").empty());
}

TEST(CompileCacheRace, the_first_savers_create_the_folders_together) {
  for (int round = 0; round < 20; ++round) {
    const TemporaryFolder folder;
    const CompileCacheOptions options{.root = folder.path() / "a" / "b"};
    const SharedProgress progress;
    race(options, 1, progress);
    EXPECT_EQ(progress->num_saved, kNumWriters);
    CompileCache cache(options);
    EXPECT_TRUE(cache.load(example_key()).is_hit());
  }
}

// With stale_after = 0, all processes remove each other's files. Saves and loads may fail, but a
// load must never return wrong bytes.
TEST(CompileCacheRace, even_sweeping_without_any_grace_gives_no_wrong_byte_and_heals) {
  const TemporaryFolder folder;
  const CompileCacheOptions options{.root = folder.path(), .stale_after = std::chrono::seconds(0)};
  const SharedProgress progress;
  race(options, 40, progress);
  EXPECT_GT(progress->num_saved, 0u);
  CompileCache cache(options);
  ASSERT_TRUE(cache.save(example_key(), tagged_files(7, kSmallFileBytes)).saved);
  EXPECT_EQ(tag_of(cache.load(example_key()).files.value(), kSmallFileBytes), 7u);
}

// Two readers find the same broken entry while writers replace it.
TEST(CompileCacheRace, putting_aside_and_publishing_at_once_loses_at_most_time) {
  const TemporaryFolder folder;
  const CompileCacheOptions options{.root = folder.path()};
  CompileCache cache(options);
  for (int round = 0; round < 40; ++round) {
    ASSERT_TRUE(cache.save(example_key(), tagged_files(1, kSmallFileBytes)).saved);
    write_bytes(cache.entry_directory(example_key()) / "manifest.json", "{");
    const SharedProgress progress;
    race(options, 1, progress);
    EXPECT_EQ(progress->num_saved, kNumWriters);
    const LoadOutcome outcome = cache.load(example_key());
    ASSERT_TRUE(outcome.is_hit()) << outcome.reason;
    (void)tag_of(*outcome.files, kSmallFileBytes);
  }
}

}  // namespace
}  // namespace reprise::compile
