#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "reprise/base/error.h"
#include "reprise/output_parsers/format_cases.h"
#include "reprise/output_parsers/reasoning_parser.h"
#include "reprise/output_parsers/tool_parser.h"
#include "tests/support/source_dir.h"

namespace reprise::output_parsers {
namespace {

using Create = CreateOutputParser;

Create tools(std::string_view name, const Json& schemas = Json::array()) {
  return [name, schemas = ToolSchemas(schemas)] { return create_tool_parser(name, schemas); };
}

Create reasoning(std::string_view name, std::string_view tool_parser = {}) {
  return [name, tool_parser] {
    return create_reasoning_parser(reasoning_format(name),
                                   tool_parser.empty() ? Create() : tools(tool_parser),
                                   CallAtTheEnd::is_a_call);
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
    "Here is my thought process: hm Here is my response: yes",
    "<|channel>thought\nhm<channel|>yes<|tool_call>call:f{a:1}<tool_call|>",
};

/// Each parser alone, and together with one parser of the other kind. ReasoningAndCalls cuts
/// answers of all pairs.
std::vector<Create> all_parsers() {
  std::vector<Create> all;
  for (const std::string_view name : tool_parser_names()) {
    all.push_back(tools(name));
    all.push_back(reasoning("qwen3", name));
  }
  for (const std::string_view name : reasoning_parser_names()) {
    all.push_back(reasoning(name));
    all.push_back(reasoning(name, "hermes"));
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

TEST(OutputParsers, each_format_finds_its_calls_and_the_types_of_their_arguments) {
  std::set<std::string_view> tested;
  for (const FormatCase& test : format_cases()) {
    const MessageDelta found = parse(tools(test.parser, case_tools()), test.text);
    EXPECT_EQ(found.tool_calls, test.calls) << test.parser << "\n" << test.text;
    EXPECT_EQ(found.content, test.content) << test.parser;
    expect_same_however_cut(tools(test.parser, case_tools()), test.text);
    tested.insert(test.parser);
  }
  for (const std::string_view name : tool_parser_names())
    EXPECT_TRUE(tested.contains(name)) << name;
}

// tests/oracle/tool_calls.jsonl was recorded with vLLM 0.32.
TEST(OutputParsers, find_the_calls_that_vllms_parsers_find) {
  std::ifstream file(source_dir() + "/tests/oracle/tool_calls.jsonl");
  int num_cases = 0;
  for (std::string line; std::getline(file, line); ++num_cases) {
    const Json recorded = Json::parse(line);
    const auto parser = recorded["parser"].get<std::string>();
    const MessageDelta found =
        parse(tools(parser, case_tools()), recorded["text"].get<std::string>());
    ASSERT_EQ(found.tool_calls.size(), recorded["calls"].size()) << line;
    for (size_t i = 0; i < found.tool_calls.size(); ++i) {
      EXPECT_EQ(found.tool_calls[i].name, recorded["calls"][i][0].get<std::string>()) << line;
      EXPECT_EQ(Json::parse(found.tool_calls[i].arguments),
                Json::parse(recorded["calls"][i][1].get<std::string>()))
          << line;
    }
  }
  EXPECT_GE(num_cases, 30);
}

TEST(OutputParsers, an_answer_that_breaks_off_anywhere_loses_no_text) {
  for (const FormatCase& test : format_cases()) {
    for (size_t size = 0; size <= test.text.size(); ++size) {
      const std::string text = test.text.substr(0, size);
      const MessageDelta found = parse(tools(test.parser, case_tools()), text);
      ASSERT_LE(found.tool_calls.size(), 2U);
      for (size_t i = 0; i < found.tool_calls.size(); ++i) {
        // A call that was cut off is not reported as a call, except in a format whose end cannot
        // show this.
        if (test.parser == "openai") continue;
        ASSERT_EQ(found.tool_calls[i], test.calls[i]) << test.parser << "\n" << text;
      }
      if (found.tool_calls.empty() && test.parser != "openai") {
        ASSERT_EQ(found.content, text) << test.parser;
      }
    }
  }
}

TEST(OutputParsers, malformed_calls_become_content_with_their_markers) {
  const std::vector<std::pair<std::string_view, std::string>> cases = {
      {"hermes", "<tool_call>{\"name\": 1}</tool_call>"},
      {"hermes", "<tool_call>{'name': 'f', 'arguments': {}}</tool_call> and"},
      {"qwen3_coder",
       "<tool_call><function=f>junk<parameter=a>1</parameter></function></tool_call>"},
      {"qwen3_coder", "<tool_call>\nno function\n</tool_call>"},
      {"qwen3_coder", "<function=two words></function>"},
      {"glm45", "<tool_call>f<arg_key>a</arg_key>no value</tool_call>"},
      {"glm45", "<tool_call>two words</tool_call>"},
      {"kimi_k2", "<|tool_calls_section_begin|> text <|tool_calls_section_end|>"},
      {"kimi_k2",
       "<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>[]<|tool_call_end|>"},
      {"deepseek_v31", "<｜tool▁calls▁begin｜>\n<｜tool▁calls▁end｜>"},
      {"deepseek_v32", "<｜DSML｜invoke name=\"f\">x</｜DSML｜invoke>"},
      {"gemma4", "<|tool_call>call:f{a:}<tool_call|>"},
      {"gemma4", "<|tool_call>call:f{a:1}trailing<tool_call|>"},
      {"granite", "<|tool_call|>[{\"name\": \"f\"}]"},
      {"mistral", "[TOOL_CALLS]f[ARGS]no json"},
      {"mistral", "[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {}"},
      {"pythonic", "[f(1)]"},
      {"pythonic", "[1] a footnote"},
      {"pythonic", "[f(a=b)]"},
      {"llama4_pythonic", "<|python_start|>print(1)<|python_end|>"},
      {"lfm2", "<|tool_call_start|>f(<|tool_call_end|>"},
      {"phi4_mini_json", "functools[1, 2]"},
      {"openai", "<|channel|>analysis without a message"},
  };
  for (const auto& [parser, text] : cases) {
    const MessageDelta found = parse(tools(parser), text);
    EXPECT_EQ(found.content, text) << parser;
    EXPECT_TRUE(found.tool_calls.empty()) << parser << text;
    EXPECT_EQ(found.reasoning, "");
    expect_same_however_cut(tools(parser), text);
  }
}

TEST(OutputParsers, a_good_call_behind_a_bad_one_is_found) {
  const MessageDelta found =
      parse(tools("hermes"),
            "<tool_call>{bad <tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>");
  EXPECT_EQ(found.content, "<tool_call>{bad ");
  ASSERT_EQ(found.tool_calls.size(), 1U);
  EXPECT_EQ(found.tool_calls[0].name, "f");
}

TEST(OutputParsers, python_literals_become_json) {
  const auto arguments = [](const std::string& value) {
    const MessageDelta found = parse(tools("pythonic"), "[f(a=" + value + ")]");
    return found.tool_calls.empty() ? found.content : found.tool_calls[0].arguments;
  };
  EXPECT_EQ(arguments("'it\\'s \\u00e9\\n'"), "{\"a\":\"it's é\\n\"}");
  EXPECT_EQ(arguments("[True, None, -1.5e3, (1, 2)]"), R"({"a":[true,null,-1500.0,[1,2]]})");
  EXPECT_EQ(arguments("{'x': {\"y\": []}, 3: false}"), R"({"a":{"x":{"y":[]},"3":false}})");
  EXPECT_EQ(arguments("\"]) , [\""), R"({"a":"]) , ["})");
  for (const char* bad : {"1 + 1", "g()", "'open", "[1", "{1}", "nan", "01", "1_000"})
    EXPECT_EQ(arguments(bad), "[f(a=" + std::string(bad) + ")]");
  EXPECT_EQ(arguments(std::string(200, '[') + std::string(200, ']')).substr(0, 3), "[f(");
}

TEST(OutputParsers, harmony_separates_the_channels) {
  const std::string text =
      "<|channel|>analysis<|message|>first<|end|><|start|>assistant<|channel|>analysis<|message|>"
      "second"
      "<|end|><|start|>assistant<|channel|>commentary to=browser.open<|message|>page<|call|>"
      "<|start|>assistant<|channel|>commentary<|message|>I "
      "look.<|end|><|start|>assistant<|channel|>"
      "commentary to=functions.f<|message|>not json<|call|>";
  const MessageDelta found = parse(tools("openai"), text);
  EXPECT_EQ(found.reasoning, "first\nsecond\npage");
  EXPECT_EQ(found.content, "I look.");
  ASSERT_EQ(found.tool_calls.size(), 1U);
  EXPECT_EQ(found.tool_calls[0], (ToolCallDelta{0, "f", "not json"}));
  expect_same_however_cut(tools("openai"), text);
  // Without tools, the text of a call is passed on as content, unchanged.
  const MessageDelta plain = parse(reasoning("openai_gptoss"), text);
  EXPECT_EQ(
      plain.content,
      "I look.<|start|>assistant<|channel|>commentary to=functions.f<|message|>not json<|call|>");
  EXPECT_EQ(parse(reasoning("openai_gptoss"), "{\"a\": 1}").content, "{\"a\": 1}")
      << "an answer that a schema constrains has no channels";
}

TEST(OutputParsers, each_reasoning_format_finds_its_reasoning) {
  for (const ReasoningFormat& format : reasoning_formats()) {
    if (format.has_channels || format.stays_in_content) continue;
    for (const std::string_view start : format.starts) {
      for (const std::string_view end : format.ends) {
        const std::string text = std::string(start) + std::string(format.label) + "thought" +
                                 std::string(end) + "answer";
        const MessageDelta found = parse(reasoning(format.name), text);
        EXPECT_EQ(found.reasoning, "thought") << format.name;
        EXPECT_EQ(found.content, "answer") << format.name;
        expect_same_however_cut(reasoning(format.name), text);
        const MessageDelta inside =
            parse(reasoning(format.name), "thought" + std::string(end) + "b");
        EXPECT_EQ(inside.reasoning, format.begins_inside ? "thought" : "") << format.name;
      }
    }
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

TEST(OutputParsers, tags_around_an_answer_are_no_part_of_it) {
  for (const auto& [name, text, content] :
       {std::tuple{"ernie45", "why</think>\n\n<response>\nIt is so.\n</response>\n", "It is so.\n"},
        {"hunyuan_a13b", "<think>\nwhy\n</think>\n<answer>\nIt is so.\n</answer>", "It is so."},
        {"hunyuan_a13b", "<think>why</think><answer>It is so.</answer>", "It is so."},
        {"hunyuan_a13b", "<think>why</think>\n<ans and more", "\n<ans and more"},
        {"ernie45", "why</think>\n\nno tags", "\n\nno tags"}}) {
    const MessageDelta found = parse(reasoning(name), text);
    EXPECT_EQ(found.content, content) << text;
    EXPECT_NE(found.reasoning.find("why"), std::string::npos) << text;
    expect_same_however_cut(reasoning(name), text);
  }
  const std::string call =
      "why</think><response>{}</response><tool_call>"
      R"({"name": "f", "arguments": {}})"
      "</tool_call>";
  EXPECT_EQ(parse(reasoning("ernie45", "hermes"), call).tool_calls.size(), 1U);
}

TEST(OutputParsers, minimax_can_keep_its_reasoning_in_the_content) {
  const CreateOutputParser kept = reasoning("minimax_m2_append_think", "hermes");
  const std::string text =
      "why <tool_call></think>\n\nso <tool_call>"
      R"({"name": "f", "arguments": {"a": 1}})"
      "</tool_call>";
  const MessageDelta found = parse(kept, text);
  EXPECT_EQ(found.content, "<think>why <tool_call></think>\n\nso ");
  EXPECT_EQ(found.reasoning, "");
  EXPECT_EQ(found.tool_calls.size(), 1U);
  expect_same_however_cut(kept, text);
  EXPECT_EQ(parse(kept, "only thoughts").content, "<think>only thoughts");
  EXPECT_EQ(parse(kept, "</think>no thoughts").content, "no thoughts");
}

TEST(OutputParsers, forced_calls_are_calls) {
  const MessageDelta named = parse([] { return create_named_call_parser("f"); }, R"({"a": 1})");
  ASSERT_EQ(named.tool_calls.size(), 1U);
  EXPECT_EQ(named.tool_calls[0], (ToolCallDelta{0, "f", R"({"a": 1})"}));
  EXPECT_EQ(parse([] { return create_required_calls_parser(); }, kTexts[22]).tool_calls.size(), 2U);
}

TEST(OutputParsers, a_cut_array_of_forced_calls_has_its_complete_calls_and_no_content) {
  const auto create = [] { return create_required_calls_parser(); };
  const std::string f = R"({"name": "f", "parameters": {"a": "],"}})";
  const std::string text = "[" + f + ", " + R"({"name": "g", "parameters": {"b": [1]}})" + "]";
  for (size_t size = 0; size <= text.size(); ++size) {
    const std::string begin = text.substr(0, size);
    for (const AnswerEnd end : {AnswerEnd::cut, AnswerEnd::by_model}) {
      const MessageDelta found = parse_pieces(create, {begin}, end);
      EXPECT_EQ(found.content, "") << begin;
      const size_t num_calls = size < 1 + f.size() ? 0 : size < text.size() - 1 ? 1 : 2;
      ASSERT_EQ(found.tool_calls.size(), num_calls) << begin;
      if (num_calls > 0) {
        EXPECT_EQ(found.tool_calls[0], (ToolCallDelta{0, "f", R"({"a":"],"})"}));
      }
    }
    expect_same_however_cut(create, begin);
  }
  // Without the constraint of its tools a model can say anything: that stays readable.
  for (const std::string_view prose : {"No tool fits.", "[1] says no", R"({"no": "call"} text)"})
    EXPECT_EQ(parse(create, std::string(prose)).content, prose);
  // In a format of a model, text that begins like a call can be prose, and a client may read it.
  EXPECT_EQ(parse(tools("llama3_json"), R"({"name": "f)").content, R"({"name": "f)");
}

TEST(OutputParsers, an_unknown_name_is_refused_with_the_known_ones) {
  EXPECT_THROW((void)create_tool_parser("hermez"), InvalidArgument);
  EXPECT_THROW((void)reasoning_format("r1"), InvalidArgument);
}

}  // namespace
}  // namespace reprise::output_parsers
