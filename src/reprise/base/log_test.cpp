#include "reprise/base/log.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <ctime>
#include <string>
#include <string_view>

#include "reprise/base/json.h"

namespace reprise {
namespace {

using std::string_view_literals::operator""sv;

std::string text_line(std::string_view message) {
  return format_log_line({}, LogLevel::info, "m", message);
}

Json json_line(std::string_view message, const LogFields& fields = {}) {
  const std::string line =
      format_log_line({.form = LogForm::json}, LogLevel::warning, "m", message, fields);
  EXPECT_TRUE(line.ends_with('\n'));
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1) << line;
  EXPECT_TRUE(std::all_of(line.begin(), line.end() - 1, [](char c) {
    return c >= ' ' && c <= '~';
  })) << line;
  return parse_json(line, "line");
}

TEST(LogLine, json_has_the_stable_members_and_the_fields_in_their_types) {
  const auto before = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
  const Json line = json_line("m\"e", {{"status", 200}, {"seconds", 0.5}, {"path", "/x"}});
  const auto after = std::chrono::system_clock::now();
  EXPECT_EQ(line["level"], "WARNING");
  EXPECT_EQ(line["module"], "m");
  EXPECT_EQ(line["message"], "m\"e");
  EXPECT_EQ(line["status"], 200);
  EXPECT_EQ(line["seconds"], 0.5);
  EXPECT_EQ(line["path"], "/x");
  const auto time = line["time"].get<std::string>();
  ASSERT_EQ(time.size(), 24U) << time;
  EXPECT_EQ(time.back(), 'Z');
  std::tm utc{};
  ASSERT_EQ(strptime(time.c_str(), "%Y-%m-%dT%H:%M:%S", &utc), time.c_str() + 19);
  const auto told = std::chrono::system_clock::from_time_t(timegm(&utc));
  EXPECT_GE(told, before);
  EXPECT_LE(told, after);
}

TEST(LogLine, json_escapes_hostile_text_without_losing_it) {
  for (const std::string_view text : {"a\nb"sv,
                                      "\r\n{\"level\":\"ERROR\"}"sv,
                                      "nul \0 esc \x1b[31m del \x7f"sv,
                                      "c1 \u009b31m, line separator \u2028, \u00e9\u4e16"sv}) {
    EXPECT_EQ(json_line(text)["message"], std::string(text));
  }
  EXPECT_EQ(json_line("\xff\xc3")["message"], "\ufffd\ufffd");
  EXPECT_EQ(json_line("m", {{"path", "\xff\n"}})["path"], "\ufffd\n");
}

TEST(LogLine, text_cannot_be_taken_for_another_line) {
  const std::string line = text_line("one\nERROR 11-21 14:00:00 [x] forged\n");
  EXPECT_TRUE(line.ends_with("[m] one\n    ERROR 11-21 14:00:00 [x] forged\n")) << line;
}

TEST(LogLine, text_shows_what_a_terminal_would_obey) {
  EXPECT_TRUE(text_line("\r\x1b[2J\x7f\0"sv).ends_with("] \\x0d\\x1b[2J\\x7f\\x00\n"));
  EXPECT_TRUE(text_line("\u009b31m").ends_with("] \\xc2\\x9b31m\n"));
  EXPECT_TRUE(text_line("\xff \xc3").ends_with("] \\xff \\xc3\n"));
  EXPECT_TRUE(text_line("\xe4\xb8").ends_with("] \\xe4\\xb8\n"));
  EXPECT_TRUE(text_line("caf\u00e9 \u4e16\U0001f600").ends_with("] caf\u00e9 \u4e16\U0001f600\n"));
}

}  // namespace
}  // namespace reprise
