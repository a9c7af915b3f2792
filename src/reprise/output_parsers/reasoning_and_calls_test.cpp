#include <gtest/gtest.h>

#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/output_parsers/format_cases.h"
#include "reprise/output_parsers/reasoning_parser.h"
#include "reprise/output_parsers/tool_parser.h"

namespace reprise::output_parsers {
namespace {

/// How a reasoning format writes a thought before the rest of an answer.
struct Written {
  ReasoningFormat format;
  std::string start;  // empty: the prompt has opened the reasoning
  std::string end;
};

std::vector<Written> ways_to_write(const ReasoningFormat& format) {
  if (format.has_channels) {
    return {{.format = format,
             .start = "<|channel|>analysis<|message|>",
             .end = "<|end|><|start|>assistant<|channel|>final<|message|>"}};
  }
  ReasoningFormat opened = format;
  opened.begins_inside = true;
  const std::string start = std::string(format.starts.front()) + std::string(format.label);
  const std::string end(format.ends.front());
  return {{.format = format, .start = start, .end = end},
          {.format = opened, .start = start, .end = end},
          {.format = opened, .start = "", .end = end}};
}

/// The expected result for an answer. Every part is known, because the test put the answer
/// together.
struct Expected {
  std::string reasoning;
  std::string content;
  std::vector<ToolCallDelta> calls;
};

/// The expected result in a format that keeps reasoning in the content.
Expected as_reported(const ReasoningFormat& format, Expected expected) {
  if (!format.stays_in_content || expected.reasoning.empty()) return expected;
  const bool is_closed = !expected.content.empty() || !expected.calls.empty();
  expected.content =
      "<think>" + expected.reasoning + (is_closed ? "</think>" : "") + expected.content;
  expected.reasoning.clear();
  return expected;
}

class ReasoningAndCalls : public testing::Test {
 protected:
  void expect(const Written& way,
              const FormatCase& tool,
              const std::string& text,
              const Expected& separated,
              AnswerEnd end = AnswerEnd::by_model) {
    const Expected expected = as_reported(way.format, separated);
    const CreateOutputParser create = [&] {
      return create_reasoning_parser(
          way.format,
          [&] { return create_tool_parser(tool.parser, ToolSchemas(case_tools())); },
          CallAtTheEnd::is_a_call);
    };
    for (const std::vector<std::string>& pieces : cuts(text)) {
      const MessageDelta found = parse_pieces(create, pieces, end);
      const std::string what = std::string(way.format.name) + " with " + std::string(tool.parser) +
                               " in " + std::to_string(pieces.size()) + " pieces:\n" + text;
      ASSERT_EQ(found.reasoning, expected.reasoning) << what;
      ASSERT_EQ(found.content, expected.content) << what;
      ASSERT_EQ(found.tool_calls, expected.calls) << what;
    }
  }

 private:
  std::vector<std::vector<std::string>> cuts(const std::string& text) {
    std::vector<std::vector<std::string>> all = {{text}, {}};
    for (const char c : text) all[1].emplace_back(1, c);
    for (int i = 0; i < 2; ++i) {
      std::vector<std::string>& pieces = all.emplace_back();
      for (size_t at = 0; at < text.size(); at += pieces.back().size()) {
        pieces.push_back(text.substr(at, 1 + random_() % 12));
      }
    }
    return all;
  }

  std::mt19937 random_{11};
};

/// The beginning of the first call: its opening tag.
std::string named_tag(const FormatCase& tool) {
  const size_t begin = tool.content.size();
  return tool.text.substr(begin, tool.text.find_first_of(">]{(", begin) - begin + 1);
}

/// In these formats calls are the whole answer, so no call can follow a thought that was not
/// closed.
bool is_whole_answer(const FormatCase& tool) {
  return tool.text.starts_with('{') || tool.parser.ends_with("pythonic");
}

TEST_F(ReasoningAndCalls, every_format_of_calls_behind_every_format_of_reasoning) {
  for (const ReasoningFormat& format : reasoning_formats()) {
    for (const Written& way : ways_to_write(format)) {
      for (const FormatCase& tool : format_cases()) {
        // In Harmony, calls and thoughts are separate messages, so one cannot contain the other.
        if (format.has_channels && tool.parser == "openai") continue;
        const std::string draft = "Maybe " + tool.text + " would be wrong.\n";
        const std::string naming = "The tag " + named_tag(tool) + " begins a call.\n";
        const Expected calls{.content = tool.content, .calls = tool.calls};
        const auto after = [&](const std::string& thought, const std::string& rest) {
          return way.start + thought + way.end + rest;
        };
        expect(way, tool, after("I call.", tool.text), {"I call.", calls.content, calls.calls});
        expect(way, tool, after(draft, tool.text), {draft, calls.content, calls.calls});
        expect(way, tool, after(naming, tool.text), {naming, calls.content, calls.calls});
        expect(way, tool, after(draft, "Hello"), {draft, "Hello", {}});
        expect(way, tool, after(naming, "Hello"), {naming, "Hello", {}});
        expect(way, tool, way.start + draft, {draft, "", {}});
        expect(way, tool, way.start + naming, {naming, "", {}});
      }
    }
  }
}

TEST_F(ReasoningAndCalls, a_call_that_ends_an_unclosed_reasoning_is_real_unless_it_was_cut) {
  for (const ReasoningFormat& format : reasoning_formats()) {
    for (const Written& way : ways_to_write(format)) {
      for (const FormatCase& tool : format_cases()) {
        if (format.has_channels) continue;  // an unclosed thought is a message that was cut
        const std::string thought = "I call. " + tool.text;
        const auto found = is_whole_answer(tool) ? std::vector<ToolCallDelta>{} : tool.calls;
        expect(way, tool, way.start + thought + "\n", {thought + "\n", "", found});
        expect(way, tool, way.start + thought, {thought, "", {}}, AnswerEnd::cut);
        const std::string again = tool.text + " No: " + thought;
        expect(way, tool, way.start + again, {again, "", found});
      }
    }
  }
}

TEST_F(ReasoningAndCalls, a_forced_call_comes_after_the_reasoning) {
  for (const ReasoningFormat& format : reasoning_formats()) {
    for (const Written& way : ways_to_write(format)) {
      const std::string draft = R"(Not [{"name": "f", "parameters": {}}], but)";
      const MessageDelta required =
          parse([&] { return create_reasoning_parser(way.format, create_required_calls_parser); },
                way.start + draft + way.end + R"([{"name": "g", "parameters": {"a": 1}}])");
      const Expected calls = as_reported(format, {draft, "", {{0, "g", R"({"a":1})"}}});
      EXPECT_EQ(required.reasoning, calls.reasoning) << format.name;
      EXPECT_EQ(required.content, calls.content) << format.name;
      EXPECT_EQ(required.tool_calls, calls.calls);
      const MessageDelta named = parse(
          [&] {
            return create_reasoning_parser(way.format,
                                           [] { return create_named_call_parser("g"); });
          },
          way.start + draft + way.end + R"({"a": 1})");
      EXPECT_EQ(named.reasoning, calls.reasoning) << format.name;
      EXPECT_EQ(named.tool_calls, (std::vector<ToolCallDelta>{{0, "g", R"({"a": 1})"}}));
    }
  }
}

TEST_F(ReasoningAndCalls, blanks_before_the_start_do_not_make_it_content) {
  const CreateOutputParser create = [] {
    return create_reasoning_parser(reasoning_format("qwen3"), nullptr);
  };
  EXPECT_EQ(parse(create, "\n<think>hm</think>yes").reasoning, "hm");
  EXPECT_EQ(parse(create, "\n<think>hm</think>yes").content, "yes");
  EXPECT_EQ(parse(create, "\n yes").content, "\n yes");
  EXPECT_EQ(parse(create, " \n").content, " \n");
}

}  // namespace
}  // namespace reprise::output_parsers
