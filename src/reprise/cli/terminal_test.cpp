#include "reprise/cli/terminal.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <sstream>

namespace reprise::cli {
namespace {

TEST(Wrap, keeps_every_word_and_no_line_is_longer_than_the_width) {
  const std::string text =
      "The quick brown fox jumps over a lazy dog and a --rather-long-option too";
  for (size_t width : {24, 30, 40, 80, 200}) {
    std::istringstream lines(std::string(10, 'x') + wrap(text, 10, 4, width));
    std::string words;
    for (std::string line; std::getline(lines, line);) {
      EXPECT_LE(line.size(), width);
      const std::string_view content = std::string_view(line).substr(words.empty() ? 10 : 4);
      words += (words.empty() ? "" : " ") + std::string(content);
    }
    EXPECT_EQ(words, text);
  }
}

TEST(Wrap, gives_a_word_that_fits_no_line_a_line_of_its_own) {
  EXPECT_EQ(wrap("a bbbbbbbbbb c", 0, 2, 6), "a\n  bbbbbbbbbb\n  c");
}

TEST(Cut, counts_characters_and_breaks_none) {
  EXPECT_EQ(cut("abcdef", 3), "abc");
  EXPECT_EQ(cut("abc", 3), "abc");
  EXPECT_EQ(cut("äöü", 2), "äö");
  EXPECT_EQ(cut("", 0), "");
}

TEST(TenthsBar, is_full_only_when_all_is_done) {
  EXPECT_EQ(tenths_bar(10, 10), "##########");
  EXPECT_EQ(tenths_bar(50, 51), "#########.");
  EXPECT_EQ(tenths_bar(0, 5), "..........");
}

TEST(TerminalWidth, is_the_given_one_where_there_is_no_terminal) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  EXPECT_EQ(terminal_width(ends[1], 77), 77U);
  close(ends[0]);
  close(ends[1]);
}

}  // namespace
}  // namespace reprise::cli
