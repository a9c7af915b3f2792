#include "reprise/tokenizer/regex.h"

#include <gtest/gtest.h>

#include "reprise/base/error.h"
#include "reprise/tokenizer/regex_dialect.h"

namespace reprise::tokenizer {
namespace {

Regex compile(std::string_view pattern) {
  const Json json(pattern);
  return Regex(Component(json, "tokenizer.json", "/pre_tokenizer/pattern/Regex"));
}

/// The text with matches in brackets and gaps without.
std::string marked(std::string_view pattern, std::string_view text) {
  std::vector<MatchSpan> spans;
  WorkMeter no_limit;
  compile(pattern).split(text, spans, no_limit);
  std::string out;
  for (const MatchSpan& span : spans) {
    const auto part = std::string(text.substr(span.begin, span.end - span.begin));
    out += span.is_match ? "[" + part + "]" : part;
  }
  return out;
}

std::string code_of(std::string_view pattern) {
  try {
    static_cast<void>(compile(pattern));
  } catch (const FileError& error) {
    EXPECT_EQ(error.field(), "/pre_tokenizer/pattern/Regex");
    return error.code();
  }
  return "none";
}

TEST(Regex, covers_the_text_with_matches_and_gaps) {
  EXPECT_EQ(marked("b+", "abbcb"), "a[bb]c[b]");
  EXPECT_EQ(marked("x", "abc"), "abc");
  EXPECT_EQ(marked("x", ""), "");
  EXPECT_EQ(marked("^b", "a\nb"), "a\n[b]");
}

TEST(Regex, skips_an_empty_match_right_after_a_match) {
  EXPECT_EQ(marked("b*", "abb中"), "[]a[bb]中[]");
}

TEST(Regex, knows_white_space_and_words_as_unicode_defines_them) {
  EXPECT_EQ(marked(R"(\s+)", "a\u180E\u2003\u0085b"), "a\u180E[\u2003\u0085]b");
  EXPECT_EQ(marked(R"(\S+)", "\u180E \u3000"), "[\u180E] \u3000");
  EXPECT_EQ(marked(R"([\s,]+)", "a, \u3000b"), "a[, \u3000]b");
  EXPECT_EQ(marked(R"(\w+)", "é\u0301_²-"), "[é\u0301_²]-");
  EXPECT_EQ(marked(R"([\u2018\u2019])", "a’b"), "a[’]b");
}

TEST(Regex, refuses_what_pcre2_would_read_differently) {
  for (const char* pattern : {R"([a&&b])", R"([a[bc]])", R"(\h)", R"([^\S])", "(", "[a", R"(a\)"}) {
    EXPECT_EQ(code_of(pattern), "E_REGEX") << pattern;
  }
}

TEST(Regex, refuses_back_references_and_recursion) {
  for (const char* pattern : {R"((a)\1)",
                              R"((?<x>a)\k<x>)",
                              R"((a)\g<1>)",
                              R"((?R))",
                              R"(a(?1)?(b))",
                              R"((?P>x))",
                              R"((*LIMIT_MATCH=9)a)"}) {
    EXPECT_EQ(code_of(pattern), "E_REGEX") << pattern;
  }
}

TEST(Regex, refuses_a_pattern_that_backtracks_exponentially_at_load) {
  EXPECT_EQ(code_of("(a|a)*b"), "E_REGEX");
  EXPECT_EQ(code_of("(a+)+b"), "E_REGEX");
  EXPECT_EQ(code_of(R"((\s+)+x)"), "E_REGEX");
}

TEST(Regex, stops_a_pattern_that_backtracks_exponentially_only_on_some_text) {
  const Regex regex = compile("(zq|z|q)*(zq|z|q)*y");
  std::string text;
  for (int i = 0; i < 200; ++i) text += "zq";
  text += "xy";
  std::vector<MatchSpan> spans;
  WorkMeter no_limit;
  try {
    regex.split(text, spans, no_limit);
    FAIL() << "no error";
  } catch (const FileError& error) {
    EXPECT_EQ(error.code(), "E_REGEX");
  }
}

TEST(Regex, matches_a_megabyte_under_a_repeated_group) {
  std::vector<MatchSpan> spans;
  WorkMeter no_limit;
  compile("(?:a|b)+").split(std::string(1'000'000, 'a'), spans, no_limit);
  EXPECT_EQ(spans.size(), 1u);
}

TEST(Regex, ends_early_when_nobody_waits_for_the_result) {
  std::stop_source client;
  client.request_stop();
  const WorkLimit gone(WorkLimit::Clock::time_point::max(), client.get_token(), {});
  const std::string text(100'000, 'a');
  std::vector<MatchSpan> spans;
  WorkMeter work(&gone);
  EXPECT_THROW(compile("a").split(text, spans, work), Abandoned);
  EXPECT_LT(spans.size(), text.size() / 10);
  const Json literal = {{"String", "a"}};
  EXPECT_THROW((void)Pattern(Component(literal, "f", "")).replace_all(text, "b", work), Abandoned);
}

TEST(Pattern, replaces_literals_and_matches) {
  const Json literal = {{"String", "a."}};
  EXPECT_EQ(Pattern(Component(literal, "f", "")).replace_all("xa.ab", "<>"), "x<>ab");
  const Json regex = {{"Regex", "a."}};
  EXPECT_EQ(Pattern(Component(regex, "f", "")).replace_all("xa.ab", "<>"), "x<><>");
}

}  // namespace
}  // namespace reprise::tokenizer
