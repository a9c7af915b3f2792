#include "reprise/base/text/visible_text.h"

#include <gtest/gtest.h>

#include <string>

namespace reprise {
namespace {

TEST(VisibleText, shows_a_text_from_outside_in_one_line) {
  EXPECT_EQ(visible_text("plain, größer, 猫"), "plain, größer, 猫");
  EXPECT_EQ(visible_text("a\nb\x1b[31m\x7f"), R"(a\u{a}b\u{1b}[31m\u{7f})");
  EXPECT_EQ(visible_text(std::string_view("a\0b", 3)), R"(a\u{0}b)");
  // U+202E reverses the direction of the text after it; U+2028 and U+0085 end a line.
  EXPECT_EQ(visible_text("\u202E\u2028\u0085\u2066"), R"(\u{202e}\u{2028}\u{85}\u{2066})");
  EXPECT_EQ(visible_text("\xff"), "\uFFFD");
  EXPECT_EQ(visible_text(std::string(1000, 'x'), 5), "xxxxx...");
}

TEST(VisibleText, tells_which_names_can_be_shown) {
  for (const char* name : {"", "get_weather", "org/model:v1.2", "größe", "猫 猫", "‌می"}) {
    EXPECT_TRUE(is_visible_text(name)) << name;
  }
  for (const char* name : {"a\n", "\x1b[0m", "a\u202Eb", "\u2029", "\u0085", "\xc3", "\u200F"}) {
    EXPECT_FALSE(is_visible_text(name)) << visible_text(name);
  }
  EXPECT_FALSE(is_visible_text(std::string_view("\0", 1)));
}

}  // namespace
}  // namespace reprise
