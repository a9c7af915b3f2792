#include "reprise/tokenizer/normalizer.h"

#include <gtest/gtest.h>
#include <utf8proc.h>

#include <cstdlib>
#include <random>

#include "reprise/base/error.h"
#include "reprise/base/text/utf8.h"

namespace reprise::tokenizer {
namespace {

Normalizer::Result normalized(std::string_view json, std::string_view text) {
  const Json parsed = parse_json(json, "test");
  return Normalizer(Component(parsed, "tokenizer.json", "/normalizer")).apply(text);
}

TEST(UnicodeForm, agrees_with_utf8proc_on_random_text) {
  const std::vector<std::pair<char32_t, char32_t>> ranges = {{0x20, 0x7E},
                                                             {0xA0, 0x17F},
                                                             {0x300, 0x36F},
                                                             {0x1100, 0x11FF},
                                                             {0xAC00, 0xACFF},
                                                             {0x900, 0x97F},
                                                             {0x1E00, 0x1FFF},
                                                             {0x2100, 0x21FF},
                                                             {0xF900, 0xFAFF},
                                                             {0xFB00, 0xFEFF}};
  std::mt19937 random(1);
  for (int round = 0; round < 3000; ++round) {
    std::string text;
    for (unsigned i = 0; i < 1 + random() % 20; ++i) {
      const auto [low, high] = ranges[random() % ranges.size()];
      append_utf8(low + random() % (high - low + 1), text);
    }
    const auto expect = [&](UnicodeForm form, utf8proc_uint8_t* whole) {
      EXPECT_EQ(to_unicode_form(text, form), reinterpret_cast<const char*>(whole)) << text;
      std::free(whole);
    };
    const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.c_str());
    expect(UnicodeForm::nfc, utf8proc_NFC(bytes));
    expect(UnicodeForm::nfd, utf8proc_NFD(bytes));
    expect(UnicodeForm::nfkc, utf8proc_NFKC(bytes));
    expect(UnicodeForm::nfkd, utf8proc_NFKD(bytes));
  }
}

TEST(UnicodeForm, keeps_zero_bytes) {
  const std::string text("a\0e\u0301\0", 6);
  EXPECT_EQ(to_unicode_form(text, UnicodeForm::nfc), std::string("a\0\u00E9\0", 5));
}

TEST(Normalizer, strips_and_tells_that_the_start_is_gone) {
  EXPECT_EQ(
      normalized(R"({"type":"Strip","strip_left":true,"strip_right":true})", " \u3000a b\n").text,
      "a b");
  EXPECT_FALSE(normalized(R"({"type":"Strip"})", " a").keeps_start);
  EXPECT_TRUE(normalized(R"({"type":"Strip"})", "a ").keeps_start);
}

TEST(Normalizer, runs_a_sequence_in_order) {
  EXPECT_EQ(
      normalized(
          R"({"type":"Sequence","normalizers":[{"type":"Lowercase"},{"type":"Prepend","prepend":"▁"},
                           {"type":"Replace","pattern":{"String":" "},"content":"▁"}]})",
          "İ É")
          .text,
      "▁i\u0307▁é");
}

TEST(Normalizer, refuses_a_text_that_its_steps_multiply) {
  const auto sequence = [](const std::string& step, int count) {
    std::string steps = step;
    for (int i = 1; i < count; ++i) steps += "," + step;
    return R"({"type":"Sequence","normalizers":[)" + steps + "]}";
  };
  const std::string tenfold =
      R"({"type":"Replace","pattern":{"String":"a"},"content":"aaaaaaaaaa"})";
  const std::string by_regex =
      R"({"type":"Replace","pattern":{"Regex":"."},"content":"aaaaaaaaaa"})";
  const std::string in_front =
      R"({"type":"Prepend","prepend":")" + std::string(1000, 'a') + R"("})";
  const std::string text(100, 'a');
  EXPECT_EQ(normalized(sequence(tenfold, 1), text).text.size(), 1000U);
  EXPECT_THROW(normalized(sequence(tenfold, 7), text), InvalidArgument);
  EXPECT_THROW(normalized(sequence(by_regex, 7), text), InvalidArgument);
  EXPECT_THROW(normalized(sequence(in_front, 3), text), InvalidArgument);
  EXPECT_THROW(normalized(sequence(R"({"type":"Replace","pattern":{"String":"a"},"content":")" +
                                       std::string(1'000'000, 'b') + R"("})",
                                   1),
                          text),
               InvalidArgument);
  // The largest growth that Unicode's forms give one character must be accepted.
  std::string ligatures;
  for (int i = 0; i < 1000; ++i) ligatures += "\uFDFA";
  EXPECT_EQ(normalized(R"({"type":"NFKD"})", ligatures).text.size(), 33'000U);
  EXPECT_EQ(normalized(R"({"type":"Sequence","normalizers":[{"type":"NFKD"},{"type":"Replace",
                           "pattern":{"String":" "},"content":"▁"}]})",
                       ligatures)
                .text.size(),
            39'000U);
}

TEST(Normalizer, prepends_nothing_to_nothing) {
  EXPECT_EQ(normalized(R"({"type":"Prepend","prepend":"▁"})", "").text, "");
}

}  // namespace
}  // namespace reprise::tokenizer
