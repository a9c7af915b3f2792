#include "reprise/api/options/hub_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "reprise/base/error.h"
#include "reprise/tokenizer/tokenizer.h"
#include "reprise/weights/config/model_config.h"
#include "reprise/weights/files/checkpoint.h"
#include "tests/support/source_dir.h"

namespace reprise::api {
namespace {

namespace fs = std::filesystem;

/// A cache as the hub's tools write it: every file of the bundled model is a link into blobs.
class HubCache : public testing::Test {
 protected:
  HubCache() : folder_(fs::temp_directory_path() / ("reprise_hub_" + std::to_string(getpid()))) {
    const fs::path repository = folder_ / "models--Tiny--Model-1.0";
    snapshot_ = repository / "snapshots" / "0123abcd";
    fs::create_directories(repository / "refs");
    fs::create_directories(repository / "blobs");
    fs::create_directories(snapshot_);
    std::ofstream(repository / "refs" / "main") << "0123abcd";
    for (const auto& entry : fs::directory_iterator(source_dir() + "/models/reprise-tiny")) {
      if (!entry.is_regular_file()) continue;
      const fs::path name = entry.path().filename();
      fs::copy_file(entry.path(), repository / "blobs" / name);
      fs::create_symlink(fs::path("../../blobs") / name, snapshot_ / name);
    }
  }
  ~HubCache() override { fs::remove_all(folder_); }

  fs::path folder_;
  fs::path snapshot_;
};

TEST_F(HubCache, a_name_is_the_snapshot_of_its_main_revision) {
  const fs::path found = find_model_folder("Tiny/Model-1.0", folder_);
  EXPECT_EQ(found, snapshot_);
  const weights::ModelDirectory directory(found);
  EXPECT_GT(weights::load_model_config(directory).config.vocab_size, 0);
  EXPECT_FALSE(weights::Checkpoint::open(directory).names().empty());
  EXPECT_FALSE(tokenizer::Tokenizer::load(found).encode("Once").empty());
}

TEST_F(HubCache, a_name_that_was_not_downloaded_is_refused_with_the_command_that_does) {
  for (const char* name : {"Tiny/Other", "Other/Model-1.0"}) {
    try {
      (void)find_model_folder(name, folder_);
      FAIL() << name;
    } catch (const InvalidArgument& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr(std::string("reprise pull ") + name));
    }
  }
  fs::remove_all(snapshot_);
  EXPECT_THROW((void)find_model_folder("Tiny/Model-1.0", folder_), InvalidArgument);
}

TEST_F(HubCache, other_revisions_are_branches_and_commits) {
  const std::string commit(40, 'c');
  fs::create_directories(folder_ / "models--Tiny--Model-1.0" / "snapshots" / commit);
  std::ofstream(folder_ / "models--Tiny--Model-1.0" / "refs" / "next") << commit;
  for (const std::string& revision : {std::string("next"), commit}) {
    EXPECT_EQ(find_model_folder("Tiny/Model-1.0", folder_, revision).filename(), commit);
  }
  try {
    (void)find_model_folder("Tiny/Model-1.0", folder_, "old");
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("reprise pull Tiny/Model-1.0 --revision old"));
  }
  EXPECT_THROW((void)find_model_folder("Tiny/Model-1.0", folder_, "../refs/next"), InvalidArgument);
}

TEST_F(HubCache, a_file_of_a_repository_is_named_by_its_quantisation_or_its_path) {
  fs::create_directories(snapshot_ / "sub");
  std::ofstream(snapshot_ / "M-Q4_K_M.gguf") << "x";
  std::ofstream(snapshot_ / "sub" / "M-Q8_0-00002-of-00002.gguf") << "x";
  std::ofstream(snapshot_ / "sub" / "M-Q8_0-00001-of-00002.gguf") << "x";
  EXPECT_EQ(find_model_folder("Tiny/Model-1.0:q4_k_m", folder_), snapshot_ / "M-Q4_K_M.gguf");
  EXPECT_EQ(find_model_folder("Tiny/Model-1.0:M-Q4_K_M.gguf", folder_),
            snapshot_ / "M-Q4_K_M.gguf");
  EXPECT_EQ(find_model_folder("Tiny/Model-1.0:Q8_0", folder_),
            snapshot_ / "sub" / "M-Q8_0-00001-of-00002.gguf");
  EXPECT_THROW((void)find_model_folder("Tiny/Model-1.0:Q5_0", folder_), InvalidArgument);
  EXPECT_THROW((void)find_model_folder("Tiny/Model-1.0:../../refs/main", folder_), InvalidArgument);
}

TEST_F(HubCache, paths_stay_as_they_are) {
  for (const char* path : {"no-such-folder", "a/b/c", "/x/y", "./a/b", "../a", "a/..", "a/-b"}) {
    EXPECT_EQ(find_model_folder(path, folder_), path);
  }
  EXPECT_EQ(find_model_folder(folder_, folder_), folder_);
}

TEST_F(HubCache, a_reference_that_is_no_hash_leads_nowhere) {
  std::ofstream(folder_ / "models--Tiny--Model-1.0" / "refs" / "main") << "../../..";
  EXPECT_THROW((void)find_model_folder("Tiny/Model-1.0", folder_), InvalidArgument);
}

}  // namespace
}  // namespace reprise::api
