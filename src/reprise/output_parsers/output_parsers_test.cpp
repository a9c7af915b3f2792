#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <string>
#include <vector>

#include "reprise/base/error.h"
#include "reprise/output_parsers/reasoning_parser.h"
#include "reprise/output_parsers/tool_parser.h"

namespace reprise::output_parsers {
namespace {

using Create = std::function<std::unique_ptr<OutputParser>()>;

/// All results of one text, with the deltas of each call joined into one.
MessageDelta joined(const MessageDelta& delta) {
  MessageDelta result{.reasoning = delta.reasoning, .content = delta.content};
  for (const ToolCallDelta& call : delta.tool_calls) {
    if (static_cast<size_t>(call.index) == result.tool_calls.size())
      result.tool_calls.push_back({.index = call.index});
    result.tool_calls.at(static_cast<size_t>(call.index)).name += call.name;
    result.tool_calls.at(static_cast<size_t>(call.index)).arguments += call.arguments;
  }
  return result;
}

MessageDelta parse_pieces(const Create& create, const std::vector<std::string>& pieces) {
  const std::unique_ptr<OutputParser> parser = create();
  MessageDelta delta;
  for (const std::string& piece : pieces) parser->push(piece, delta);
  parser->finish(delta);
  return joined(delta);
}

MessageDelta parse(const Create& create, const std::string& text) {
  return parse_pieces(create, {text});
}

Create tools(std::string_view name) {
  return [name] { return create_tool_parser(name); };
}

Create reasoning(std::string_view name, std::string_view tool_parser = {}) {
  return [name, tool_parser] {
    return create_reasoning_parser(reasoning_format(name),
                                   tool_parser.empty() ? nullptr : create_tool_parser(tool_parser));
  };
}

void expect_same_however_cut(const Create& create, const std::string& text) {
  const MessageDelta whole = parse(create, text);
  const auto expect_same = [&](const std::vector<std::string>& pieces) {
    const MessageDelta cut = parse_pieces(create, pieces);
    ASSERT_EQ(cut.content, whole.content) << text;
    ASSERT_EQ(cut.reasoning, whole.reasoning) << text;
    ASSERT_EQ(cut.tool_calls, whole.tool_calls) << text;
  };
  for (size_t at = 0; at <= text.size(); ++at) expect_same({text.substr(0, at), text.substr(at)});
  std::vector<std::string> bytes;
  for (const char c : text) bytes.emplace_back(1, c);
  expect_same(bytes);
}

const std::vector<std::string> kTexts = {
    "",
    "No call at all.",
    "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"x}\"}}\n</tool_call>",
    "Before "
    "<tool_call>{\"name\":\"f\",\"arguments\":{}}</"
    "tool_call>\n<tool_call>{\"name\":\"g\",\"arguments\":null}"
    "</tool_call> after \n",
    "<tool_call>not json</tool_call> <tool_ca",
    "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": 1}}",
    "{\"name\": \"f\", \"parameters\": {\"a\": [1, 2]}}; {\"name\": \"g\", \"parameters\": {}}",
    "<|python_tag|>{\"name\": \"f\", \"parameters\": {}} and more",
    "{\"no\": \"call\"} text",
    "{\"name\": \"f\", \"parameters\": {\"a\": \"\\\"}\"}",
    "[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {\"a\": 1}}, {\"name\": \"g\", \"arguments\": "
    "{}}]",
    "Hi [TOOL_CALLS]f{\"a\": 1}[TOOL_CALLS]g[ARGS]{\"b\": {}}",
    "[TOOL_CALLS] nothing here\n{",
    "[TOOL_CALLS][{\"name\": 3}]",
    "Look: <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{\"a\": "
    "1}\n```<｜tool▁call▁end｜>\n"
    "<｜tool▁call▁begin｜>function<｜tool▁sep｜>g\n```json\n{}\n```<｜tool▁call▁end｜><"
    "｜tool▁calls▁end｜>",
    "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"a\": "
    "1}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    "<｜tool▁calls▁beg and then <｜tool▁call▁begin｜>no separator<｜tool▁call▁end｜>",
    "<think>\nlet me see</think>\n\nThe answer <think>",
    "thinking </thi not yet</think>done<tool_call>{\"name\":\"f\",\"arguments\":{}}</tool_call>",
    "[THINK]hm[/THINK]yes",
    "<think>never closed",
    " <thi",
    "[{\"name\": \"f\", \"parameters\": {\"a\": 1}}, {\"name\": \"g\", \"parameters\": {}}]",
    "[{\"name\": \"f\", \"parameters\": {\"a\"",
};

std::vector<Create> all_parsers() {
  std::vector<Create> all;
  for (const std::string_view name : tool_parser_names()) all.push_back(tools(name));
  for (const std::string_view name : reasoning_parser_names()) {
    all.push_back(reasoning(name));
    for (const std::string_view tool : tool_parser_names()) all.push_back(reasoning(name, tool));
  }
  all.emplace_back([] { return create_required_calls_parser(); });
  all.emplace_back([] { return create_named_call_parser("f"); });
  return all;
}

TEST(OutputParsers, give_the_same_wherever_the_text_is_cut) {
  for (const Create& create : all_parsers()) {
    for (const std::string& text : kTexts) expect_same_however_cut(create, text);
  }
}

TEST(OutputParsers, take_any_text_and_lose_none_of_it_without_a_call) {
  std::mt19937 random(7);
  const std::vector<std::string> words = {"<tool_call>",
                                          "</tool_call>",
                                          "{",
                                          "}",
                                          "[",
                                          "]",
                                          "\"",
                                          "\\",
                                          "name",
                                          "arguments",
                                          ":",
                                          ",",
                                          "a",
                                          " ",
                                          "\n",
                                          "[TOOL_CALLS]",
                                          "<|python_tag|>",
                                          "<think>",
                                          "</think>",
                                          "<｜tool▁call▁begin｜>",
                                          "<｜tool▁sep｜>",
                                          "<｜tool▁call▁end｜>",
                                          "<｜tool▁calls▁begin｜>",
                                          "\xff",
                                          "é",
                                          "{\"name\":\"f\",\"arguments\":{}}"};
  const std::vector<Create> parsers = all_parsers();
  for (int i = 0; i < 4000; ++i) {
    std::string text;
    const size_t num_words = random() % 12;
    for (size_t w = 0; w < num_words; ++w) text += words[random() % words.size()];
    const Create& create = parsers[random() % parsers.size()];
    const MessageDelta whole = parse(create, text);
    std::vector<std::string> pieces;
    for (size_t at = 0; at < text.size();) {
      const size_t size = 1 + random() % 9;
      pieces.push_back(text.substr(at, size));
      at += size;
    }
    const MessageDelta cut = parse_pieces(create, pieces);
    ASSERT_EQ(cut.content, whole.content) << text;
    ASSERT_EQ(cut.reasoning, whole.reasoning) << text;
    ASSERT_EQ(cut.tool_calls, whole.tool_calls) << text;
  }
}

TEST(OutputParsers, hermes_finds_calls_and_keeps_the_text_around_them) {
  const MessageDelta found = parse(tools("hermes"), kTexts[3]);
  EXPECT_EQ(found.content, "Before  after");
  ASSERT_EQ(found.tool_calls.size(), 2U);
  EXPECT_EQ(found.tool_calls[0], (ToolCallDelta{0, "f", "{}"}));
  EXPECT_EQ(found.tool_calls[1], (ToolCallDelta{1, "g", "{}"}));
  EXPECT_EQ(parse(tools("hermes"), kTexts[4]).content, kTexts[4]);
  EXPECT_EQ(parse(tools("hermes"), kTexts[5]).tool_calls.size(), 1U)
      << "the end marker was the stop token";
}

TEST(OutputParsers, llama_finds_calls_in_bare_json) {
  const MessageDelta found = parse(tools("llama3_json"), kTexts[6]);
  EXPECT_EQ(found.content, "");
  ASSERT_EQ(found.tool_calls.size(), 2U);
  EXPECT_EQ(found.tool_calls[0], (ToolCallDelta{0, "f", R"({"a":[1,2]})"}));
  EXPECT_EQ(parse(tools("llama3_json"), kTexts[8]).content, kTexts[8]);
  EXPECT_EQ(parse(tools("llama3_json"), kTexts[9]).content, kTexts[9]);
}

TEST(OutputParsers, mistral_finds_both_forms) {
  EXPECT_EQ(parse(tools("mistral"), kTexts[10]).tool_calls.size(), 2U);
  const MessageDelta found = parse(tools("mistral"), kTexts[11]);
  EXPECT_EQ(found.content, "Hi ");
  ASSERT_EQ(found.tool_calls.size(), 2U);
  EXPECT_EQ(found.tool_calls[1], (ToolCallDelta{1, "g", R"({"b":{}})"}));
}

TEST(OutputParsers, deepseek_finds_both_forms) {
  const MessageDelta found = parse(tools("deepseek_v3"), kTexts[14]);
  EXPECT_EQ(found.content, "Look: ");
  ASSERT_EQ(found.tool_calls.size(), 2U);
  EXPECT_EQ(found.tool_calls[0], (ToolCallDelta{0, "f", R"({"a":1})"}));
  EXPECT_EQ(parse(tools("deepseek_v31"), kTexts[15]).tool_calls.size(), 1U);
  EXPECT_EQ(parse(tools("deepseek_v31"), kTexts[15]).content, "");
}

TEST(OutputParsers, reasoning_ends_where_the_model_says) {
  const MessageDelta found = parse(reasoning("qwen3"), kTexts[17]);
  EXPECT_EQ(found.reasoning, "\nlet me see");
  EXPECT_EQ(found.content, "\n\nThe answer <think>");
  const MessageDelta inside = parse(reasoning("deepseek_r1", "hermes"), kTexts[18]);
  EXPECT_EQ(inside.reasoning, "thinking </thi not yet");
  EXPECT_EQ(inside.content, "done");
  EXPECT_EQ(inside.tool_calls.size(), 1U);
  EXPECT_EQ(parse(reasoning("qwen3"), "no thoughts").content, "no thoughts");
}

TEST(OutputParsers, forced_calls_are_calls) {
  const MessageDelta named = parse([] { return create_named_call_parser("f"); }, R"({"a": 1})");
  ASSERT_EQ(named.tool_calls.size(), 1U);
  EXPECT_EQ(named.tool_calls[0], (ToolCallDelta{0, "f", R"({"a": 1})"}));
  EXPECT_EQ(parse([] { return create_required_calls_parser(); }, kTexts[22]).tool_calls.size(), 2U);
}

TEST(OutputParsers, an_unknown_name_is_refused_with_the_known_ones) {
  EXPECT_THROW((void)create_tool_parser("hermez"), InvalidArgument);
  EXPECT_THROW((void)reasoning_format("r1"), InvalidArgument);
}

}  // namespace
}  // namespace reprise::output_parsers
