#include "reprise/compile/cache/cache_key.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <string>
#include <vector>

namespace reprise::compile {
namespace {

TEST(CacheKey, text_is_one_readable_line_per_field_in_order) {
  const CacheKey key = CacheKey().add("target", "avx512").add("eps", "1e-06").add("note", "");
  EXPECT_EQ(key.text(), "target=avx512\neps=1e-06\nnote=\n");
  EXPECT_EQ(CacheKey().text(), "");
}

TEST(CacheKey, text_is_printable_whatever_the_value_holds) {
  const CacheKey key = CacheKey().add("v", std::string("a\nb\\n\0\x7f\xc3\xa9\t", 10));
  EXPECT_EQ(key.text(), "v=a\\nb\\\\n\\x00\\x7f\\xc3\\xa9\\x09\n");
}

// Folders on users' disks are named by the hash, so it must not change by accident.
TEST(CacheKey, hash_is_what_it_was_yesterday) {
  EXPECT_EQ(CacheKey().hash(), "99aa06d3014798d86001c324468d497f");
  EXPECT_EQ(CacheKey().add("a", "b").hash().size(), 32u);
}

TEST(CacheKey, different_fields_never_give_the_same_text) {
  const std::vector<CacheKey> keys = {
      CacheKey(),
      CacheKey().add("a", ""),
      CacheKey().add("a", "\n"),
      CacheKey().add("a", "\\n"),
      CacheKey().add("a", "\\\\n"),
      CacheKey().add("a", "").add("a", ""),
      CacheKey().add("a", "\na="),
      CacheKey().add("a", "b=c"),
      CacheKey().add("a", "b").add("c", "d"),
      CacheKey().add("c", "d").add("a", "b"),
      CacheKey().add("a", "b\nc=d"),
      CacheKey().add("a", "b\\nc=d"),
      CacheKey().add("a", "\x01"),
      CacheKey().add("a", "\\x01"),
      CacheKey().add("A", ""),
      CacheKey().add("ab", ""),
      CacheKey().add("a", "b"),
      CacheKey().add("a", std::string(1, '\0')),
  };
  std::set<std::string> texts;
  std::set<std::string> hashes;
  for (const CacheKey& key : keys) {
    texts.insert(key.text());
    hashes.insert(key.hash());
  }
  EXPECT_EQ(texts.size(), keys.size());
  EXPECT_EQ(hashes.size(), keys.size());
}

TEST(CacheKey, hundred_thousand_random_keys_have_distinct_hashes) {
  std::mt19937_64 random(1);
  std::set<std::string> texts;
  std::set<std::string> hashes;
  for (int i = 0; i < 100'000; ++i) {
    CacheKey key;
    const uint64_t num_fields = 1 + random() % 4;
    for (uint64_t field = 0; field < num_fields; ++field) {
      key.add("f" + std::to_string(field), std::to_string(random() % 4096));
    }
    if (texts.insert(key.text()).second) hashes.insert(key.hash());
  }
  EXPECT_EQ(texts.size(), hashes.size());
  EXPECT_GT(texts.size(), 70'000u);
}

TEST(CacheKeyDeathTest, a_name_that_could_be_mistaken_for_a_value_is_a_programmer_mistake) {
  EXPECT_DEATH(CacheKey().add("", "x"), "cache key");
  EXPECT_DEATH(CacheKey().add("a=b", "x"), "cache key");
  EXPECT_DEATH(CacheKey().add("a\n", "x"), "cache key");
}

}  // namespace
}  // namespace reprise::compile
