#include "reprise/hub/download/listing.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "reprise/base/error.h"

namespace reprise::hub {
namespace {

const std::string kSha1(40, 'a');
const std::string kSha256(64, 'b');

std::string small_file(std::string_view path, std::string_view size = "3") {
  return fmt::format(R"([{{"type":"file","path":"{}","size":{},"oid":"{}"}}])", path, size, kSha1);
}

TEST(Listing, small_files_have_the_hash_of_git_and_large_ones_their_own) {
  const auto files =
      read_tree(fmt::format(R"([{{"type":"directory","path":"d","oid":"{0}","size":0}},
        {{"type":"file","path":"d/config.json","size":12,"oid":"{0}"}},
        {{"type":"file","path":"m.safetensors","size":999,"oid":"{0}",
          "lfs":{{"oid":"{1}","size":999,"pointerSize":130}}}}])",
                            kSha1,
                            kSha256),
                "tree");
  ASSERT_EQ(files.size(), 2U);
  EXPECT_EQ(files[0].path, "d/config.json");
  EXPECT_EQ(files[0].size, 12U);
  EXPECT_EQ(files[0].hash_kind, HashKind::git_sha1);
  EXPECT_EQ(files[0].hash, kSha1);
  EXPECT_EQ(files[1].hash_kind, HashKind::sha256);
  EXPECT_EQ(files[1].hash, kSha256);
  EXPECT_EQ(files[1].size, 999U);
}

TEST(Listing, paths_that_lead_out_of_the_folder_are_refused) {
  for (const char* path : {"../x",
                           "a/../../x",
                           "/etc/passwd",
                           "a//b",
                           "a/./b",
                           "..",
                           ".",
                           "",
                           "a/",
                           R"(a\\..\\b)",
                           R"(a\u0000b)",
                           R"(a\nb)"}) {
    EXPECT_THROW((void)read_tree(small_file(path), "tree"), Error) << path;
  }
  for (const char* path : {"a", "a/b", "..a", "a..b/c", "ä.json"}) {
    EXPECT_EQ(read_tree(small_file(path), "tree").at(0).path, path);
  }
}

TEST(Listing, hashes_and_sizes_that_cannot_be_are_refused) {
  EXPECT_THROW((void)read_tree(small_file("a", "-1"), "tree"), Error);
  EXPECT_THROW((void)read_tree(small_file("a", "1.5"), "tree"), Error);
  EXPECT_THROW((void)read_tree(small_file("a", "18446744073709551615"), "tree"), Error);
  EXPECT_THROW((void)read_tree(R"([{"type":"file","path":"a","size":1,"oid":"../../x"}])", "tree"),
               Error);
  EXPECT_THROW((void)read_tree(R"([{"type":"file","path":"a","size":1}])", "tree"), Error);
  EXPECT_THROW((void)read_tree(R"({"error":"x"})", "tree"), Error);
  EXPECT_THROW((void)read_tree("<html>", "tree"), Error);
}

TEST(Listing, a_revision_is_a_commit) {
  EXPECT_EQ(read_commit(fmt::format(R"({{"sha":"{}"}})", kSha1), "revision"), kSha1);
  EXPECT_THROW((void)read_commit(R"({"sha":"../../../x"})", "revision"), Error);
  EXPECT_THROW((void)read_commit(R"([])", "revision"), Error);
}

}  // namespace
}  // namespace reprise::hub
