#include "reprise/engine/stop_string_matcher.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

namespace reprise::engine {
namespace {

using Include = StopStringMatcher::IncludeStop;
using Check = StopStringMatcher::Check;

TEST(StopStringMatcher, holds_back_the_longest_suffix_that_may_become_a_stop_string) {
  const std::vector<std::string> stop = {"\n\nQ:", "END"};
  StopStringMatcher matcher(stop);
  EXPECT_EQ(matcher.append("hello\n"), "hello");
  EXPECT_EQ(matcher.append("\n"), "");
  EXPECT_EQ(matcher.append("Q"), "");
  EXPECT_EQ(matcher.num_held_bytes(), 3U);
  EXPECT_EQ(matcher.append("A E"), "\n\nQA ");
  EXPECT_EQ(matcher.append("N"), "");
  EXPECT_EQ(matcher.append("D more"), "");
  EXPECT_TRUE(matcher.is_matched());
  EXPECT_EQ(matcher.matched(), "END");
  EXPECT_EQ(matcher.append("ignored"), "");
  EXPECT_EQ(matcher.flush(), "");
}

TEST(StopStringMatcher, finds_a_match_that_begins_inside_a_failed_one) {
  const std::vector<std::string> stop = {"aab"};
  StopStringMatcher matcher(stop);
  EXPECT_EQ(matcher.append("aa"), "");
  EXPECT_EQ(matcher.append("a"), "a");
  EXPECT_EQ(matcher.append("b"), "");
  EXPECT_TRUE(matcher.is_matched());
}

TEST(StopStringMatcher, includes_the_stop_string_when_asked_and_drops_what_follows) {
  const std::vector<std::string> stop = {"stop"};
  StopStringMatcher matcher(stop, Include::yes);
  EXPECT_EQ(matcher.append("don't st"), "don't ");
  EXPECT_EQ(matcher.append("op me"), "stop");
  EXPECT_EQ(matcher.matched(), "stop");
}

TEST(StopStringMatcher, gives_held_text_back_at_the_end) {
  const std::vector<std::string> stop = {"abcd"};
  StopStringMatcher matcher(stop);
  EXPECT_EQ(matcher.append("xabc"), "x");
  EXPECT_EQ(matcher.flush(), "abc");
  EXPECT_EQ(matcher.flush(), "");
  EXPECT_FALSE(matcher.is_matched());
  EXPECT_EQ(matcher.matched(), "");
}

TEST(StopStringMatcher, prefers_the_match_that_ends_first_then_the_one_listed_first) {
  const std::vector<std::string> stop = {"bcd", "c", "bc"};
  StopStringMatcher matcher(stop);
  EXPECT_EQ(matcher.append("abcd"), "ab");
  EXPECT_EQ(matcher.matched(), "c");
}

TEST(StopStringMatcher, without_stop_strings_passes_text_through) {
  StopStringMatcher matcher({});
  EXPECT_EQ(matcher.append("anything"), "anything");
  EXPECT_EQ(matcher.append(""), "");
  EXPECT_EQ(matcher.num_held_bytes(), 0U);
}

TEST(StopStringMatcher, ignores_matches_that_end_while_checks_are_off) {
  const std::vector<std::string> stop = {"ab"};
  StopStringMatcher matcher(stop);
  EXPECT_EQ(matcher.append("xab", Check::off), "xab");
  EXPECT_EQ(matcher.append("ya", Check::off), "y");
  EXPECT_EQ(matcher.append("b", Check::on), "");  // the match ends in checked text
  EXPECT_TRUE(matcher.is_matched());
}

TEST(StopStringMatcher, finds_a_match_that_overlaps_an_ignored_one) {
  const std::vector<std::string> stop = {"aba"};
  StopStringMatcher matcher(stop);
  EXPECT_EQ(matcher.append("aba", Check::off), "ab");
  EXPECT_EQ(matcher.append("ba"), "");
  EXPECT_TRUE(matcher.is_matched());
}

TEST(StopStringMatcher, never_cuts_a_utf8_character) {
  const std::vector<std::string> stop = {"\u00e9t\u00e9"};
  StopStringMatcher matcher(stop);
  EXPECT_EQ(matcher.append("caf\u00e8 \u00e9"), "caf\u00e8 ");  // è shares its first byte with é
  EXPECT_EQ(matcher.append("t\u00e8"), "\u00e9t\u00e8");
}

/// The expected result, computed from the whole text: the text shown in the end, and the stop
/// string that was found.
struct Expected {
  std::string shown;
  std::string matched;
};
Expected match_ref(const std::string& text, const std::vector<std::string>& stop, Include include) {
  for (size_t end = 1; end <= text.size(); ++end) {
    for (const std::string& s : stop) {
      if (end >= s.size() && text.compare(end - s.size(), s.size(), s) == 0) {
        return {text.substr(0, include == Include::yes ? end : end - s.size()), s};
      }
    }
  }
  return {text, ""};
}

TEST(StopStringMatcher, result_does_not_depend_on_how_text_is_cut) {
  std::mt19937 random(3);
  const auto random_text = [&random](size_t size) {
    std::string text(size, 'a');
    for (char& c : text) c = static_cast<char>('a' + random() % 2);
    return text;
  };
  for (int round = 0; round < 3000; ++round) {
    std::vector<std::string> stop(random() % 4);
    for (std::string& s : stop) s = random_text(1 + random() % 8);
    const std::string text = random_text(random() % 60);
    const Include include = random() % 2 == 0 ? Include::yes : Include::no;
    const Expected expected = match_ref(text, stop, include);

    StopStringMatcher matcher(stop, include);
    std::string shown;
    for (size_t at = 0; at < text.size();) {
      const size_t size = std::min(text.size() - at, size_t{1} + random() % 6);
      shown += matcher.append(std::string_view(text).substr(at, size));
      at += size;
      ASSERT_TRUE(expected.shown.starts_with(shown)) << "shown too much";
      if (!matcher.is_matched()) {
        // The matcher holds back no more than needed: the held text is the beginning of a stop
        // string.
        const std::string held = text.substr(shown.size(), at - shown.size());
        ASSERT_EQ(held.size(), matcher.num_held_bytes());
        ASSERT_TRUE(held.empty() || std::any_of(stop.begin(), stop.end(), [&](const auto& s) {
                      return s.starts_with(held);
                    }));
      }
    }
    shown += matcher.flush();
    ASSERT_EQ(shown, expected.shown);
    ASSERT_EQ(matcher.matched(), expected.matched);
  }
}

TEST(StopStringMatcher, takes_linear_time_on_text_that_almost_matches) {
  const std::vector<std::string> stop(16, std::string(4095, 'a') + "b");
  StopStringMatcher matcher(stop);
  size_t num_shown = 0;
  for (int i = 0; i < 2000; ++i) num_shown += matcher.append("aaaaaaaaaaaaaaaa").size();
  EXPECT_EQ(num_shown, 2000U * 16U - 4095U);
}

}  // namespace
}  // namespace reprise::engine
