#include "reprise/base/text/utf8.h"

#include <gtest/gtest.h>

namespace reprise {
namespace {

TEST(Utf8, every_code_point_survives_the_round_trip) {
  std::string text;
  for (char32_t c = 0; c < 0x110000; c = c == 0xD7FF ? 0xE000 : c + 1) {
    text.clear();
    append_utf8(c, text);
    size_t position = 0;
    ASSERT_TRUE(is_valid_utf8(text));
    ASSERT_EQ(next_code_point(text, position), c);
    ASSERT_EQ(position, text.size());
    ASSERT_EQ(previous_boundary(text, text.size()), 0u);
  }
}

TEST(Utf8, refuses_overlong_surrogate_and_out_of_range_sequences) {
  for (const char* bad : {"\x80",
                          "\xC0\x80",
                          "\xC1\xBF",
                          "\xE0\x80\x80",
                          "\xED\xA0\x80",
                          "\xF0\x80\x80\x80",
                          "\xF4\x90\x80\x80",
                          "\xF5\x80\x80\x80",
                          "\xFF",
                          "a\xE4\xB8"}) {
    EXPECT_FALSE(is_valid_utf8(bad));
    EXPECT_TRUE(is_valid_utf8(to_valid_utf8(bad)));
  }
}

// The template engine and the tokenizer share this decoder, and both get bytes from hostile users.
TEST(Utf8, reads_a_byte_that_starts_no_character_as_one_replacement_character) {
  const std::string_view text = "a\xE4\xB8z\xFF\xED\xA0\x80中";
  std::u32string read;
  for (size_t position = 0; position < text.size();) {
    read.push_back(next_code_point(text, position));
  }
  EXPECT_EQ(read, U"a\uFFFD\uFFFDz\uFFFD\uFFFD\uFFFD\uFFFD中");
  EXPECT_EQ(count_code_points(text), 9u);
  EXPECT_EQ(offset_of_code_point(text, 3), 3u);
  EXPECT_EQ(offset_of_code_point(text, 8), 8u);
  EXPECT_EQ(offset_of_code_point(text, 99), text.size());
  EXPECT_TRUE(is_valid_utf8("\uFFFD"));
}

TEST(Utf8, replaces_each_maximal_ill_formed_part_once) {
  EXPECT_EQ(to_valid_utf8("a\xE4\xB8z"), "a\uFFFDz");
  EXPECT_EQ(to_valid_utf8("\xF0\x9F\x98"), "\uFFFD");
  EXPECT_EQ(to_valid_utf8("\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(to_valid_utf8("\xE4\xE4\xB8\xAD"), "\uFFFD中");
}

TEST(Utf8Stream, gives_the_same_text_however_the_bytes_are_cut) {
  const std::string bytes = "é中😀\xFF\xE4\xB8x\xF0\x9F\x98\xED\xA0\x80 end\xC3";
  const std::string whole = to_valid_utf8(bytes);
  for (size_t cut = 0; cut <= bytes.size(); ++cut) {
    Utf8Stream stream;
    std::string text;
    stream.push(std::string_view(bytes).substr(0, cut), text);
    EXPECT_TRUE(is_valid_utf8(text));
    stream.push(std::string_view(bytes).substr(cut), text);
    stream.finish(text);
    EXPECT_EQ(text, whole);
  }
}

}  // namespace
}  // namespace reprise
