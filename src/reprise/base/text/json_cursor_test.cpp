#include "reprise/base/text/json_cursor.h"

#include <gtest/gtest.h>

#include "reprise/base/error.h"

namespace reprise {
namespace {

std::string string_in(std::string_view json) {
  std::string storage;
  JsonCursor cursor(json, "test.json", {"E_TOKENIZER"});
  return std::string(cursor.read_string(storage));
}

template <typename Read>
std::string code_of(std::string_view json, Read&& read) {
  try {
    JsonCursor cursor(json, "test.json", {"E_TOKENIZER"});
    read(cursor);
  } catch (const FileError& error) {
    return error.code();
  }
  return "none";
}

TEST(JsonCursor, reads_escapes_and_surrogate_pairs) {
  EXPECT_EQ(string_in(R"("plain")"), "plain");
  EXPECT_EQ(string_in(R"("a\"\\\/\b\f\n\r\tz")"), "a\"\\/\b\f\n\r\tz");
  EXPECT_EQ(string_in(R"("\u00e9\u4E2d\ud83d\ude00!")"), "é中😀!");
}

TEST(JsonCursor, refuses_bad_strings_with_a_code) {
  const auto read = [](JsonCursor& cursor) {
    std::string storage;
    static_cast<void>(cursor.read_string(storage));
  };
  for (const char* bad : {R"("\x")",
                          R"("\ud800")",
                          R"("\ud800A")",
                          R"("\udc00")",
                          "\"a\nb\"",
                          "\"\xFF\"",
                          R"("\u12g4")",
                          "12"}) {
    EXPECT_EQ(code_of(bad, read), "E_TOKENIZER") << bad;
  }
  for (const char* cut : {"", "\"", "\"abc", "\"abc\\", "\"\\u12"}) {
    EXPECT_EQ(code_of(cut, read), "E_TRUNCATED") << cut;
  }
}

TEST(JsonCursor, reads_only_integers_up_to_the_limit) {
  const auto read = [](JsonCursor& cursor) { static_cast<void>(cursor.read_unsigned(1000)); };
  for (const char* good : {"0", "7", "1000", " 12 "})
    EXPECT_EQ(code_of(good, read), "none") << good;
  for (const char* bad :
       {"-1", "1001", "99999999999999999999999", "1.5", "1e2", "01", "true", "\"1\""}) {
    EXPECT_EQ(code_of(bad, read), "E_TOKENIZER") << bad;
  }
}

TEST(JsonCursor, fails_with_the_codes_of_its_document) {
  JsonCursor cut("[1", "test.json", {.malformed = "E_HEADER", .truncated = "E_HEADER"});
  try {
    cut.for_each_element([&] { EXPECT_EQ(cut.read_unsigned(1), 1u); });
    FAIL();
  } catch (const FileError& error) {
    EXPECT_EQ(error.code(), "E_HEADER");
  }
  EXPECT_EQ(code_of("1.5", [](JsonCursor& cursor) { (void)cursor.read_unsigned(9, "E_SHAPE"); }),
            "E_SHAPE");
}

TEST(JsonCursor, skips_a_value_of_any_kind_whole) {
  for (const std::string_view value :
       {R"({"a":[1,{"b":"]}\""}],"c":null})", "[]", "{}", "12.5e-3", "\"x\\\"y\"", "true"}) {
    const std::string json = std::string(value) + " ,";
    JsonCursor cursor(json, "test.json", {"E_TOKENIZER"});
    EXPECT_EQ(cursor.skip_value(), value);
    EXPECT_EQ(cursor.peek(), ',');
  }
}

TEST(JsonCursor, stops_at_the_depth_limit_without_recursion) {
  const std::string deep(1'000'000, '[');
  EXPECT_EQ(code_of(deep, [](JsonCursor& cursor) { static_cast<void>(cursor.skip_value()); }),
            "E_DEPTH");
}

}  // namespace
}  // namespace reprise
