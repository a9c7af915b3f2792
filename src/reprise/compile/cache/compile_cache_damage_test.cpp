// An entry is damaged by a disk, a person or an attacker. load() must return the saved bytes or a
// miss.

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "reprise/compile/cache/cache_manifest.h"
#include "reprise/compile/cache/compile_cache.h"
#include "reprise/compile/cache/entry_reader.h"
#include "tests/support/compile/compile_cache_fixture.h"

namespace reprise::compile {
namespace {

namespace fs = std::filesystem;

class CompileCacheDamage : public testing::Test {
 protected:
  void save(uint64_t tag) {
    const SaveOutcome outcome = cache_.save(example_key(), tagged_files(tag));
    ASSERT_TRUE(outcome.saved) << outcome.reason;
  }

  /// Expects that the cache reports the entry as broken once and moves it aside, and can then save
  /// it again.
  void expect_broken_and_heals() {
    const LoadOutcome first = cache_.load(example_key());
    ASSERT_FALSE(first.is_hit());
    ASSERT_EQ(first.miss, MissReason::broken) << first.reason;
    EXPECT_TRUE(first.quarantined) << first.reason;
    EXPECT_NE(first.reason, "");
    EXPECT_EQ(cache_.load(example_key()).miss, MissReason::absent);
    ++tag_;
    save(tag_);
    const LoadOutcome healed = cache_.load(example_key());
    ASSERT_TRUE(healed.is_hit()) << healed.reason;
    EXPECT_EQ(tag_of(*healed.files), tag_);
  }

  /// manifest.json and the files that it lists, by their names on disk.
  std::vector<std::string> names_of_entry() const {
    std::vector<std::string> names = {"manifest.json"};
    const ManifestReading reading = read_manifest(read_bytes(entry_ / "manifest.json"));
    for (const ManifestFile& file : reading.manifest.value().files) {
      names.push_back(file.stored_name());
    }
    return names;
  }

  uint64_t tag_ = 1;
  TemporaryFolder folder_;
  CompileCache cache_{{.root = folder_.path(), .stale_after = std::chrono::seconds(0)}};
  fs::path entry_ = cache_.entry_directory(example_key());
};

TEST_F(CompileCacheDamage, each_file_cut_at_each_sixteenth_is_put_aside_and_heals) {
  save(tag_);
  int num_cuts = 0;
  for (size_t file = 0; file < names_of_entry().size(); ++file) {
    for (size_t sixteenth = 0; sixteenth < 16; ++sixteenth) {
      SCOPED_TRACE(testing::Message() << "file " << file << " at " << sixteenth << "/16");
      const fs::path path = entry_ / names_of_entry()[file];
      const std::string whole = read_bytes(path);
      if (whole.empty()) continue;
      write_bytes(path, whole.substr(0, whole.size() * sixteenth / 16));
      expect_broken_and_heals();
      ++num_cuts;
    }
  }
  EXPECT_EQ(num_cuts, 3 * 16);
}

TEST_F(CompileCacheDamage, each_file_that_is_missing_or_longer_is_put_aside_and_heals) {
  save(tag_);
  for (size_t file = 0; file < names_of_entry().size(); ++file) {
    SCOPED_TRACE(file);
    const fs::path path = entry_ / names_of_entry()[file];
    write_bytes(path, read_bytes(path) + '\0');
    expect_broken_and_heals();
    // Without a manifest there is no entry, so a missing manifest is not damage.
    if (file == 0) continue;
    fs::remove(entry_ / names_of_entry()[file]);
    expect_broken_and_heals();
  }
}

TEST_F(CompileCacheDamage, random_flips_never_give_a_wrong_byte) {
  std::mt19937_64 random(20);
  save(tag_);
  int num_misses = 0;
  for (int flip = 0; flip < 256; ++flip) {
    uint64_t num_bytes = 0;
    for (const std::string& name : names_of_entry()) num_bytes += fs::file_size(entry_ / name);
    uint64_t at = random() % num_bytes;
    for (const std::string& name : names_of_entry()) {
      std::string bytes = read_bytes(entry_ / name);
      if (at < bytes.size()) {
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << random() % 8));
        write_bytes(entry_ / name, bytes);
        break;
      }
      at -= bytes.size();
    }
    const LoadOutcome outcome = cache_.load(example_key());
    if (outcome.is_hit()) {
      ASSERT_EQ(tag_of(*outcome.files), tag_);
    } else {
      ++num_misses;
      ASSERT_TRUE(outcome.miss == MissReason::broken || outcome.miss == MissReason::version)
          << outcome.reason;
      save(++tag_);
    }
    ASSERT_EQ(tag_of(cache_.load(example_key()).files.value()), tag_);
  }
  EXPECT_EQ(num_misses, 256) << "every bit of an entry is covered by a checksum";
}

TEST_F(CompileCacheDamage, hostile_manifests_are_put_aside) {
  save(tag_);
  Manifest base{.key_text = example_key().text()};
  const auto with = [&](std::vector<ManifestFile> files) {
    Manifest manifest = base;
    manifest.files = std::move(files);
    return print_manifest(manifest);
  };
  plant_file(folder_.path() / "outside", "secret");
  const uint64_t secret = cache_checksum("secret");
  std::string million = R"({"files":[)";
  for (int i = 0; i < 1'000'000; ++i) million += "{},";
  const std::vector<std::string> texts = {
      with({{.name = "../../outside", .num_bytes = 6, .checksum = secret}}),
      with({{.name = (folder_.path() / "outside").string(), .num_bytes = 6, .checksum = secret}}),
      with({{.name = "kernels.o", .num_bytes = ~uint64_t{0}}}),
      with({{.name = "kernels.o", .num_bytes = uint64_t{1} << 63}}),
      with({{.name = "a", .num_bytes = ~uint64_t{0}}, {.name = "b", .num_bytes = 2}}),
      with({{.name = "a"}, {.name = "a"}}),
      with(std::vector<ManifestFile>(1025, {.name = "a"})),
      million,
      std::string(1'000'000, '['),
      std::string(900'000, '{'),
      "",
      "not JSON",
      std::string(100, '\0'),
      "[]",
  };
  for (const std::string& text : texts) {
    SCOPED_TRACE(text.substr(0, 200));
    plant_file(entry_ / "manifest.json", text);
    expect_broken_and_heals();
  }
}

/// Makes a file of 1 TB that takes no space. If the file system has a smaller limit, the file keeps
/// its size, which is also wrong.
void make_a_terabyte(const fs::path& path) {
  if (::truncate(path.c_str(), off_t{1} << 40) != 0) {
    ASSERT_EQ(errno, EFBIG);
  }
}

TEST_F(CompileCacheDamage, a_terabyte_is_refused_before_it_is_allocated) {
  save(tag_);
  const ManifestFile large{.name = "large", .num_bytes = uint64_t{1} << 40};
  plant_file(entry_ / "manifest.json",
             print_manifest({.key_text = example_key().text(), .files = {large}}));
  plant_file(entry_ / large.stored_name(), "");
  make_a_terabyte(entry_ / large.stored_name());
  expect_broken_and_heals();

  make_a_terabyte(entry_ / names_of_entry()[1]);
  expect_broken_and_heals();
  make_a_terabyte(entry_ / "manifest.json");
  expect_broken_and_heals();
}

TEST_F(CompileCacheDamage, what_is_not_a_regular_file_is_put_aside_without_waiting_for_it) {
  save(tag_);
  const auto make_socket = [](const fs::path& path) {
    // A socket's path must be short, so the test binds a name relative to the folder.
    const fs::path here = fs::current_path();
    fs::current_path(path.parent_path());
    sockaddr_un address{.sun_family = AF_UNIX};
    path.filename().string().copy(address.sun_path, sizeof(address.sun_path) - 1);
    const int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
    EXPECT_EQ(::bind(socket, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    ::close(socket);
    fs::current_path(here);
  };
  const std::vector<std::function<void(const fs::path&)>> makers = {
      [](const fs::path& path) { fs::create_directory(path); },
      [](const fs::path& path) { ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0); },
      [](const fs::path& path) { fs::create_symlink("/dev/zero", path); },
      [](const fs::path& path) { fs::create_symlink(path.filename(), path); },
      make_socket,
  };
  for (size_t maker = 0; maker < makers.size(); ++maker) {
    for (size_t file = 0; file < 2; ++file) {
      SCOPED_TRACE(testing::Message() << "maker " << maker << ", file " << file);
      const fs::path path = entry_ / names_of_entry()[file];
      fs::remove(path);
      makers[maker](path);
      expect_broken_and_heals();
      fs::remove_all(path.parent_path());
      save(tag_);
    }
  }
}

TEST_F(CompileCacheDamage, a_folder_in_place_of_a_file_gives_way_to_the_same_entry) {
  save(tag_);
  for (const std::string& name : names_of_entry()) {
    SCOPED_TRACE(name);
    fs::remove(entry_ / name);
    fs::create_directories(entry_ / name / "theirs");
    EXPECT_FALSE(cache_.load(example_key()).is_hit());
    save(tag_);
    const LoadOutcome healed = cache_.load(example_key());
    ASSERT_TRUE(healed.is_hit()) << healed.reason;
    EXPECT_EQ(tag_of(*healed.files), tag_);
  }
}

TEST_F(CompileCacheDamage, a_link_in_place_of_a_file_is_not_followed_even_to_the_right_bytes) {
  save(tag_);
  const fs::path file = entry_ / names_of_entry()[1];
  fs::rename(file, folder_.path() / "elsewhere");
  fs::create_symlink(folder_.path() / "elsewhere", file);
  expect_broken_and_heals();
}

TEST_F(CompileCacheDamage, a_bounded_number_of_broken_manifests_is_kept) {
  for (int round = 0; round < 10; ++round) {
    save(tag_);
    write_bytes(entry_ / "manifest.json", "broken " + std::to_string(round));
    expect_broken_and_heals();
    const auto kept = names_with(entry_, "quarantine");
    EXPECT_EQ(kept.size(), static_cast<size_t>(std::min(round + 1, kMaxQuarantined)));
  }
  EXPECT_EQ(read_bytes(entry_ / "manifest.json.quarantine-1"), "broken 0");
  EXPECT_EQ(read_bytes(entry_ / "manifest.json.quarantine-4"), "broken 9");
}

TEST_F(CompileCacheDamage, a_broken_entry_that_cannot_be_put_aside_is_a_miss_and_heals) {
  save(tag_);
  write_bytes(entry_ / "manifest.json", "{");
  CompileCache stuck({.root = folder_.path(), .step_hook = [](std::string_view step) {
                        return step == "rename" ? EROFS : 0;
                      }});
  for (int i = 0; i < 2; ++i) {
    const LoadOutcome outcome = stuck.load(example_key());
    EXPECT_EQ(outcome.miss, MissReason::broken);
    EXPECT_FALSE(outcome.quarantined);
    EXPECT_NE(outcome.reason.find("it stays"), std::string::npos) << outcome.reason;
  }
  save(2);
  EXPECT_EQ(tag_of(*cache_.load(example_key()).files), 2u);
}

// At each step of a reader that is moving a broken entry aside, another writer saves the entry.
TEST_F(CompileCacheDamage, an_entry_published_while_a_broken_one_is_put_aside_survives) {
  bool was_reached = true;
  int moment = 0;
  for (; was_reached; ++moment) {
    SCOPED_TRACE(moment);
    save(1);
    write_bytes(entry_ / names_of_entry()[1], "broken");
    was_reached = false;
    int step_index = 0;
    CompileCache reader({.root = folder_.path(), .step_hook = [&](std::string_view) {
                           if (step_index++ == moment) {
                             was_reached = true;
                             save(2);
                           }
                           return 0;
                         }});
    const LoadOutcome outcome = reader.load(example_key());
    EXPECT_EQ(outcome.is_hit(), outcome.reason.empty());
    if (outcome.is_hit()) {
      ASSERT_EQ(tag_of(*outcome.files), 2u);
    }
    const LoadOutcome after = cache_.load(example_key());
    ASSERT_EQ(after.is_hit(), was_reached) << after.reason;
    if (after.is_hit()) {
      ASSERT_EQ(tag_of(*after.files), 2u);
    }
  }
  EXPECT_GT(moment, 12);
}

}  // namespace
}  // namespace reprise::compile
