#include "reprise/weights/packed_copy/packed_copy.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/compile/compile_cache_fixture.h"

namespace reprise::weights {
namespace {

namespace fs = std::filesystem;
using compile::names_in;
using compile::read_bytes;
using compile::run_in_child;
using compile::TemporaryFolder;
using compile::write_bytes;

const RunParts kOneAfterTheOther = [](int64_t parts, const std::function<void(int64_t)>& run_part) {
  for (int64_t part = 0; part < parts; ++part) run_part(part);
};

/// Weights of 0, 1, 5,000 and more bytes whose values depend on `tag`.
class Model {
 public:
  explicit Model(char tag, size_t largest = 20'000) {
    for (const size_t bytes : {largest, size_t{1}, size_t{5'000}, size_t{4'096}}) {
      memory_.emplace_back(bytes, tag);
      for (size_t i = 0; i < bytes; i += 7) memory_.back()[i] = static_cast<char>(tag + i % 11);
    }
    for (size_t i = 0; i < memory_.size(); ++i) {
      weights_.push_back({.name = "layers." + std::to_string(i),
                          .plan = i,
                          .bytes = std::as_bytes(std::span(memory_[i]))});
    }
  }

  Model(const Model&) = delete;  // the weights refer to this object's memory
  Model& operator=(const Model&) = delete;

  [[nodiscard]] const std::vector<PackedWeight>& weights() const { return weights_; }
  /// Whether a copy has exactly these weights.
  [[nodiscard]] bool is(const PackedCopy& copy) const {
    return std::ranges::all_of(weights_, [&](const PackedWeight& weight) {
      const auto found = copy.find(weight.name, weight.plan, weight.bytes.size());
      return found.size() == weight.bytes.size() &&
             std::memcmp(found.data(), weight.bytes.data(), found.size()) == 0;
    });
  }

 private:
  std::vector<std::string> memory_;
  std::vector<PackedWeight> weights_;
};

class PackedCopyTest : public testing::Test {
 protected:
  [[nodiscard]] PackedCopyFile file(std::string key = "key", StepHook hook = {}) const {
    return PackedCopyFile(
        {.root = root_, .name = "m.weights", .key = std::move(key), .step_hook = std::move(hook)});
  }
  [[nodiscard]] static PackedCopyFile::Saved save(const PackedCopyFile& file, const Model& model) {
    return file.save(model.weights(), kOneAfterTheOther);
  }
  [[nodiscard]] static PackedCopyFile::Opened open(const PackedCopyFile& file) {
    return file.open(kOneAfterTheOther);
  }

  TemporaryFolder folder_;
  fs::path root_ = folder_.path() / "packed_weights";
  fs::path path_ = root_ / "m.weights";
};

TEST_F(PackedCopyTest, maps_what_was_saved) {
  const Model model('a', size_t{9} << 20);
  EXPECT_EQ(open(file()).copy, nullptr);
  EXPECT_FALSE(open(file()).is_broken) << "a first start is nothing to warn of";
  const PackedCopyFile::Saved saved = save(file(), model);
  ASSERT_TRUE(saved.is_saved) << saved.reason;
  EXPECT_EQ(saved.bytes, fs::file_size(path_));
  const PackedCopyFile::Opened opened = open(file());
  ASSERT_NE(opened.copy, nullptr) << opened.reason;
  EXPECT_TRUE(model.is(*opened.copy));
  EXPECT_EQ(names_in(root_), std::vector<std::string>{"m.weights"});
}

TEST_F(PackedCopyTest, gives_no_weight_of_another_plan_or_size) {
  ASSERT_TRUE(save(file(), Model('a')).is_saved);
  const PackedCopyFile::Opened opened = open(file());
  EXPECT_FALSE(opened.copy->find("layers.2", 2, 5'000).empty());
  EXPECT_TRUE(opened.copy->find("layers.2", 3, 5'000).empty());
  EXPECT_TRUE(opened.copy->find("layers.2", 2, 4'999).empty());
  EXPECT_TRUE(opened.copy->find("layers.9", 2, 5'000).empty());
}

TEST_F(PackedCopyTest, is_not_used_under_another_key_and_is_then_replaced) {
  ASSERT_TRUE(save(file("old files"), Model('a')).is_saved);
  EXPECT_EQ(open(file("new files")).copy, nullptr);
  EXPECT_FALSE(open(file("new files")).is_broken);
  ASSERT_TRUE(save(file("new files"), Model('b')).is_saved);
  EXPECT_TRUE(Model('b').is(*open(file("new files")).copy));
  EXPECT_EQ(open(file("old files")).copy, nullptr);
}

TEST_F(PackedCopyTest, a_damaged_byte_is_found_wherever_it_is) {
  const Model model('a');
  ASSERT_TRUE(save(file(), model).is_saved);
  const std::string bytes = read_bytes(path_);
  for (size_t i = 0; i < bytes.size(); i += i < 600 ? 1 : 37) {
    std::string damaged = bytes;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x10);
    write_bytes(path_, damaged);
    const PackedCopyFile::Opened opened = open(file());
    // The bytes between two weights have no meaning.
    const bool is_whole = opened.copy != nullptr && model.is(*opened.copy);
    EXPECT_TRUE(is_whole || (opened.copy == nullptr && opened.is_broken)) << "byte " << i;
  }
  ASSERT_TRUE(save(file(), model).is_saved);
  EXPECT_TRUE(model.is(*open(file()).copy));
}

TEST_F(PackedCopyTest, a_file_of_another_length_is_refused) {
  ASSERT_TRUE(save(file(), Model('a')).is_saved);
  const std::string bytes = read_bytes(path_);
  for (const size_t length : {size_t{0}, size_t{63}, size_t{64}, size_t{4'096}, bytes.size() - 1}) {
    fs::resize_file(path_, length);
    EXPECT_TRUE(open(file()).is_broken) << length;
    write_bytes(path_, bytes);
  }
  fs::resize_file(path_, bytes.size() + 1);
  EXPECT_TRUE(open(file()).is_broken);
}

TEST_F(PackedCopyTest, a_save_that_fails_at_any_step_leaves_the_old_file_and_no_other) {
  const Model old('a');
  ASSERT_TRUE(save(file(), old).is_saved);
  int failing = 0;
  for (bool has_failed = true; has_failed; ++failing) {
    has_failed = false;
    int step = 0;
    const auto fail = [&](std::string_view) {
      if (step++ != failing) return 0;
      has_failed = true;
      return ENOSPC;
    };
    const PackedCopyFile::Saved saved = save(file("key", fail), Model('b'));
    if (!saved.is_saved) {
      EXPECT_NE(saved.reason.find("No space left"), std::string::npos) << saved.reason;
      EXPECT_TRUE(old.is(*open(file()).copy)) << "step " << failing;
    } else {
      EXPECT_TRUE(Model('b').is(*open(file()).copy)) << "step " << failing;
      ASSERT_TRUE(save(file(), old).is_saved);
    }
    EXPECT_EQ(names_in(root_), std::vector<std::string>{"m.weights"}) << "step " << failing;
  }
  EXPECT_GT(failing, 5);
}

TEST_F(PackedCopyTest, an_open_that_fails_at_any_step_gives_a_reason) {
  ASSERT_TRUE(save(file(), Model('a')).is_saved);
  bool has_failed = true;
  for (int failing = 0; has_failed; ++failing) {
    has_failed = false;
    int step = 0;
    const PackedCopyFile::Opened opened = open(file("key", [&](std::string_view) {
      if (step++ != failing) return 0;
      has_failed = true;
      return EIO;
    }));
    EXPECT_EQ(opened.copy == nullptr, has_failed) << "step " << failing;
    EXPECT_EQ(opened.reason.empty(), !has_failed) << "step " << failing;
  }
}

TEST_F(PackedCopyTest, a_disk_without_room_gives_a_reason) {
  ASSERT_TRUE(save(file(), Model('a')).is_saved);
  run_in_child([&] {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limits{.rlim_cur = 10'000, .rlim_max = 10'000};
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limits), 0);
    const PackedCopyFile::Saved saved = save(file(), Model('b'));
    ASSERT_FALSE(saved.is_saved);
    ASSERT_NE(saved.reason.find("File too large"), std::string::npos) << saved.reason;
  });
  EXPECT_TRUE(Model('a').is(*open(file()).copy));
  EXPECT_EQ(names_in(root_), std::vector<std::string>{"m.weights"});
}

TEST_F(PackedCopyTest, processes_that_save_and_open_at_the_same_time_see_whole_files) {
  const std::array<Model, 3> models = {Model('a'), Model('b'), Model('c')};
  ASSERT_TRUE(save(file(), models[0]).is_saved);
  std::vector<pid_t> children;
  for (const Model& model : models) {
    children.push_back(compile::start_child([&] {
      for (int i = 0; i < 20; ++i) {
        const PackedCopyFile::Saved saved = save(file(), model);
        ASSERT_TRUE(saved.is_saved) << saved.reason;
        const PackedCopyFile::Opened opened = open(file());
        ASSERT_NE(opened.copy, nullptr) << opened.reason;
        const auto is_it = [&](const Model& any) { return any.is(*opened.copy); };
        ASSERT_TRUE(std::ranges::any_of(models, is_it));
      }
    }));
  }
  for (const pid_t child : children) EXPECT_EQ(compile::wait_for(child), 0);
  EXPECT_EQ(names_in(root_), std::vector<std::string>{"m.weights"});
}

TEST_F(PackedCopyTest, a_mapped_file_stays_as_it_was_when_another_one_replaces_it) {
  ASSERT_TRUE(save(file(), Model('a')).is_saved);
  const PackedCopyFile::Opened opened = open(file());
  ASSERT_TRUE(save(file(), Model('b')).is_saved);
  EXPECT_TRUE(Model('a').is(*opened.copy));
  fs::remove(path_);
  EXPECT_TRUE(Model('a').is(*opened.copy));
}

TEST_F(PackedCopyTest, a_replaced_weight_can_be_written_and_changes_no_file) {
  ASSERT_TRUE(save(file(), Model('a')).is_saved);
  const PackedCopyFile::Opened opened = open(file());
  const std::span<std::byte> weight = opened.copy->find("layers.2", 2, 5'000);
  EXPECT_TRUE(opened.copy->has(weight.data()));
  opened.copy->replace_by_zeros(weight);
  EXPECT_TRUE(std::ranges::all_of(weight, [](std::byte byte) { return byte == std::byte{0}; }));
  std::ranges::fill(weight, std::byte{1});
  EXPECT_FALSE(opened.copy->has(weight.data()));
  EXPECT_TRUE(opened.copy->find("layers.2", 2, 5'000).empty());
  const auto next = opened.copy->find("layers.3", 3, 4'096);
  EXPECT_EQ(std::memcmp(next.data(), Model('a').weights()[3].bytes.data(), next.size()), 0);
  EXPECT_TRUE(Model('a').is(*open(file()).copy));
}

TEST_F(PackedCopyTest, a_folder_or_file_that_others_may_write_to_is_not_used) {
  ASSERT_TRUE(save(file(), Model('a')).is_saved);
  ASSERT_EQ(::chmod(root_.c_str(), 0777), 0);
  EXPECT_TRUE(open(file()).is_broken);
  EXPECT_FALSE(save(file(), Model('a')).is_saved);
  ASSERT_EQ(::chmod(root_.c_str(), 0700), 0);
  EXPECT_NE(open(file()).copy, nullptr);
  const fs::path elsewhere = folder_.path() / "elsewhere";
  fs::rename(path_, elsewhere);
  fs::create_symlink(elsewhere, path_);
  EXPECT_TRUE(open(file()).is_broken) << "a link may lead to the file of another user";
}

TEST_F(PackedCopyTest, what_a_killed_writer_has_left_goes_after_some_hours) {
  ASSERT_TRUE(save(file(), Model('a')).is_saved);
  compile::plant_file(root_ / ".tmp-0123456789abcdef", "half a model");
  ASSERT_TRUE(save(file(), Model('a')).is_saved);
  EXPECT_EQ(names_in(root_).size(), 2u) << "the writer may still be at work";
  compile::make_older(root_ / ".tmp-0123456789abcdef", int64_t{7} * 3600);
  ASSERT_TRUE(save(file(), Model('a')).is_saved);
  EXPECT_EQ(names_in(root_), std::vector<std::string>{"m.weights"});
}

}  // namespace
}  // namespace reprise::weights
