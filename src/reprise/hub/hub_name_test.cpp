#include "reprise/hub/hub_name.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "reprise/base/error.h"

namespace reprise::hub {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(HubName, has_two_parts_and_perhaps_a_file) {
  const auto name = parse_hub_name("Qwen/Qwen3-0.6B");
  ASSERT_TRUE(name);
  EXPECT_EQ(name->repository, "Qwen/Qwen3-0.6B");
  EXPECT_EQ(name->file, "");
  EXPECT_EQ(name->cache_folder(), "models--Qwen--Qwen3-0.6B");
  const auto file = parse_hub_name("a/b_c:sub/x.gguf");
  ASSERT_TRUE(file);
  EXPECT_EQ(file->repository, "a/b_c");
  EXPECT_EQ(file->file, "sub/x.gguf");
}

TEST(HubName, paths_are_no_names) {
  for (const char* text : {"",
                           "a",
                           "a/",
                           "/a",
                           "a/b/c",
                           "./a",
                           "../a",
                           "a/..",
                           "a/-b",
                           "a/b.gguf",
                           "a/b:",
                           "C:/models",
                           "a b/c",
                           "a/b?c"}) {
    EXPECT_FALSE(parse_hub_name(text)) << text;
  }
}

TEST(HubName, a_quantisation_means_the_files_of_one_model) {
  const std::vector<std::string> paths = {"README.md",
                                          "mmproj-Q8_0.gguf",
                                          "M-Q8_0.gguf",
                                          "M-IQ4_K_M.gguf",
                                          "Q4_K_M/M-Q4_K_M-00001-of-00002.gguf",
                                          "Q4_K_M/M-Q4_K_M-00002-of-00002.gguf"};
  EXPECT_THAT(files_of_name(paths, "q8_0"), ElementsAre(2));
  EXPECT_THAT(files_of_name(paths, "Q4_K_M"), ElementsAre(4, 5));
  EXPECT_THAT(files_of_name(paths, "Q4_K_M/M-Q4_K_M-00001-of-00002.gguf"), ElementsAre(4, 5));
  EXPECT_THAT(files_of_name(paths, "M-Q8_0.gguf"), ElementsAre(2));
  EXPECT_THAT(files_of_name(paths, "README.md"), ElementsAre(0));
  EXPECT_THAT(files_of_name(paths, "mmproj-Q8_0.gguf"), ElementsAre(1));
  EXPECT_THAT(files_of_name(paths, "K_M"), IsEmpty());
  EXPECT_THAT(files_of_name(paths, "Q5_0"), IsEmpty());
}

TEST(HubName, a_quantisation_of_two_models_is_refused) {
  const std::vector<std::string> paths = {"M-UD-Q4_0.gguf", "M-Q4_0.gguf"};
  EXPECT_THROW((void)files_of_name(paths, "Q4_0"), InvalidArgument);
  EXPECT_THAT(files_of_name(paths, "UD-Q4_0"), ElementsAre(0));
}

}  // namespace
}  // namespace reprise::hub
