#include "reprise/compile/cache/cache_manifest.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace reprise::compile {
namespace {

Manifest example() {
  return {.key_text = "target=avx512\nnote=\n",
          .created_by = "reprise 0.1.0",
          .files = {{.name = "kernels.o", .num_bytes = 5, .checksum = cache_checksum("hello")},
                    {.name = "empty", .num_bytes = 0, .checksum = cache_checksum("")}}};
}

bool is_refused(const std::string& text) {
  const ManifestReading reading = read_manifest(text);
  EXPECT_NE(reading.manifest.has_value(), !reading.reason.empty());
  return !reading.manifest && !reading.is_other_version;
}

Manifest with_file_named(const std::string& name) {
  Manifest manifest = example();
  manifest.files[0].name = name;
  return manifest;
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

/// A complete manifest with a file list that print_manifest() would not write.
std::string with_files(const std::string& files) {
  return R"({"format":"reprise compile cache","version":1,"created_by":"","key":[],"files":)" +
         files + R"(,"checksum":"0000000000000000"})";
}

TEST(CacheManifest, reads_what_it_prints) {
  for (const Manifest& manifest : {example(), Manifest{}, Manifest{.created_by = "\n\"\xc3\xa9"}}) {
    const ManifestReading reading = read_manifest(print_manifest(manifest));
    ASSERT_TRUE(reading.manifest) << reading.reason;
    EXPECT_EQ(*reading.manifest, manifest);
  }
}

// People read this text in the entry's folder, and later versions of the engine must still read it.
TEST(CacheManifest, looks_like_this) {
  EXPECT_EQ(print_manifest(example()), R"({
 "format": "reprise compile cache",
 "version": 1,
 "created_by": "reprise 0.1.0",
 "key": [
  "target=avx512",
  "note="
 ],
 "files": [
  {
   "name": "kernels.o",
   "bytes": 5,
   "xxh3": "9555e8555c62dcfd"
  },
  {
   "name": "empty",
   "bytes": 0,
   "xxh3": "2d06800538d394c2"
  }
 ],
 "checksum": "1971e3d8b284af19"
}
)");
}

TEST(CacheManifest, every_flipped_bit_is_seen) {
  const std::string good = print_manifest(example());
  int num_versions = 0;
  for (size_t byte = 0; byte < good.size(); ++byte) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string bad = good;
      bad[byte] = static_cast<char>(bad[byte] ^ (1 << bit));
      const ManifestReading reading = read_manifest(bad);
      ASSERT_FALSE(reading.manifest) << "byte " << byte << ", bit " << bit;
      num_versions += reading.is_other_version;
    }
  }
  EXPECT_LE(num_versions, 8) << "only the version's own digit may look like another version";
}

TEST(CacheManifest, every_cut_and_every_addition_is_seen) {
  const std::string good = print_manifest(example());
  for (size_t size = 0; size < good.size(); ++size) {
    ASSERT_TRUE(is_refused(good.substr(0, size))) << size;
  }
  for (const std::string_view more : {" ", "\n", "{}", "x"})
    EXPECT_TRUE(is_refused(good + std::string(more)));
  EXPECT_TRUE(is_refused(std::string("\xEF\xBB\xBF") + good));
}

TEST(CacheManifest, refuses_names_that_lead_elsewhere_even_with_a_right_checksum) {
  for (const std::string& name : {std::string("../kernels.o"),
                                  std::string("/etc/passwd"),
                                  std::string("a/b"),
                                  std::string("a\\b"),
                                  std::string(""),
                                  std::string("."),
                                  std::string(".."),
                                  std::string(".tmp-1"),
                                  std::string("a b"),
                                  std::string("a\nb"),
                                  std::string("a\0b", 3),
                                  std::string("\xc3\xa9"),
                                  std::string(kMaxCacheFileName + 1, 'a')}) {
    EXPECT_TRUE(is_refused(print_manifest(with_file_named(name)))) << name;
    EXPECT_FALSE(is_cache_file_name(name)) << name;
  }
  EXPECT_FALSE(is_refused(print_manifest(with_file_named(std::string(kMaxCacheFileName, 'a')))));
}

TEST(CacheManifest, refuses_duplicate_names_and_too_many_files) {
  EXPECT_TRUE(is_refused(print_manifest(with_file_named("empty"))));
  Manifest many;
  for (size_t i = 0; i < kMaxCacheFiles; ++i) many.files.push_back({.name = std::to_string(i)});
  EXPECT_FALSE(is_refused(print_manifest(many)));
  many.files.push_back({.name = "one more"});
  EXPECT_TRUE(is_refused(print_manifest(many)));
}

TEST(CacheManifest, refuses_a_million_files_and_deep_nesting_before_they_cost_memory) {
  std::string million = "[0";
  for (int i = 0; i < 1'000'000; ++i) million += ",{}";
  EXPECT_TRUE(is_refused(with_files(million + "]")));
  EXPECT_TRUE(is_refused(std::string(1'000'000, '[')));
  EXPECT_TRUE(is_refused(with_files(std::string(100'000, '[') + std::string(100'000, ']'))));
  EXPECT_TRUE(is_refused(std::string(kMaxManifestBytes + 1, ' ')));
}

TEST(CacheManifest, refuses_what_is_not_a_manifest) {
  for (const std::string text : {"", "null", "[]", "{}", "1", "\"\"", "ELF", "{\"version\":1}"}) {
    EXPECT_TRUE(is_refused(text)) << text;
  }
  const std::string file = R"([{"name":"a","bytes":VALUE,"xxh3":"0000000000000000"}])";
  for (const char* value :
       {"-1", "1.0", "1e3", "1e400", "\"5\"", "null", "[]", "18446744073709551616", "true"}) {
    EXPECT_TRUE(is_refused(with_files(replaced(file, "VALUE", value)))) << value;
  }
  for (const char* files : {"{}", "null", "[null]", "[[]]", "[{}]", "\"a\"", R"([{"name":1}])"}) {
    EXPECT_TRUE(is_refused(with_files(files))) << files;
  }
  const std::string good = print_manifest(example());
  EXPECT_TRUE(is_refused(replaced(good, "\"version\": 1", "\"version\": \"1\"")));
  EXPECT_TRUE(is_refused(replaced(good, "\"version\": 1", "\"version\": -1")));
  EXPECT_TRUE(is_refused(replaced(good, "\"target=avx512\"", "7")));
  EXPECT_TRUE(is_refused(replaced(good, "  ", " "))) << "only its own spacing";
  EXPECT_TRUE(is_refused(replaced(good, "\"key\"", "\"extra\": 0, \"key\"")));
  EXPECT_TRUE(is_refused(replaced(good, "\"key\"", "\"version\": 1, \"key\"")));
}

TEST(CacheManifest, another_version_is_said_to_be_one) {
  const std::string text = replaced(print_manifest(example()), "\"version\": 1", "\"version\": 2");
  const ManifestReading reading = read_manifest(text);
  EXPECT_FALSE(reading.manifest);
  EXPECT_TRUE(reading.is_other_version);
  EXPECT_NE(reading.reason.find("version 2"), std::string::npos) << reading.reason;
}

TEST(CacheManifest, stored_names_follow_from_the_content) {
  const ManifestFile file{.name = "a.o", .num_bytes = 1, .checksum = 0x1f};
  EXPECT_EQ(file.stored_name(), "a.o.000000000000001f");
  EXPECT_TRUE(is_stored_name(file.stored_name()));
  for (const char* name : {"",
                           ".000000000000001f",
                           "000000000000001f",
                           "a.000000000000001",
                           "a.000000000000001G",
                           "a-000000000000001f",
                           "manifest.json"}) {
    EXPECT_FALSE(is_stored_name(name)) << name;
  }
}

}  // namespace
}  // namespace reprise::compile
