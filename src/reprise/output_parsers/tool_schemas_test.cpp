#include "reprise/output_parsers/tool_schemas.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reprise/output_parsers/format_cases.h"
#include "reprise/output_parsers/tool_parser.h"

namespace reprise::output_parsers {
namespace {

/// A request's tools: one function f, with one parameter a of this schema.
Json tools_with(const std::string& schema, const std::string& definitions = "{}") {
  return Json::parse(R"([{"type": "function", "function": {"name": "f", "parameters": {
      "type": "object", "$defs": )" +
                     definitions + R"(, "properties": {"a": )" + schema + "}}}}]");
}

std::string retyped(const std::string& schema,
                    const std::string& value,
                    const std::string& definitions = "{}") {
  Json arguments = {{"a", Json::parse(value)}};
  ToolSchemas(tools_with(schema, definitions)).retype("f", arguments);
  return arguments["a"].dump();
}

struct Retyping {
  std::string schema;
  std::string value;     // as the format reads it
  std::string expected;  // as vLLM 0.32's coerce_to_schema_type() gives it
};

const std::vector<Retyping> kRetypings = {
    {R"({"type": "string"})", R"("5")", R"("5")"},
    {R"({"type": "string"})", R"("null")", R"("null")"},
    {R"({"type": "string"})", R"("true")", R"("true")"},
    {R"({"type": "string"})", R"("{\"b\": 1}")", R"("{\"b\": 1}")"},
    {R"({"type": "string"})", "5", R"("5")"},
    {R"({"type": "string"})", "true", R"("true")"},
    {R"({"type": "string"})", " null", R"("null")"},
    {R"({"type": "integer"})", R"("5")", "5"},
    {R"({"type": "integer"})", R"(" -5 ")", "-5"},
    {R"({"type": "integer"})", R"("+05")", "5"},
    {R"({"type": "integer"})", R"("1_000")", "1000"},
    {R"({"type": "integer"})", R"("5.0")", "5.0"},
    {R"({"type": "integer"})", R"("5.5")", "5.5"},
    {R"({"type": "integer"})", R"("five")", R"("five")"},
    {R"({"type": "integer"})", "5", "5"},
    {R"({"type": "number"})", R"("5")", "5"},
    {R"({"type": "number"})", R"("5.0")", "5"},
    {R"({"type": "number"})", R"("2.5")", "2.5"},
    {R"({"type": "number"})", R"(".5")", "0.5"},
    {R"({"type": "number"})", R"("1e3")", "1000"},
    {R"({"type": "number"})", R"("inf")", R"("inf")"},
    {R"({"type": "number"})", R"("nan")", R"("nan")"},
    {R"({"type": "number"})", R"("1e999")", R"("1e999")"},
    {R"({"type": "number"})", "2.0", "2"},
    {R"({"type": "boolean"})", R"("True")", "true"},
    {R"({"type": "boolean"})", R"(" false ")", "false"},
    {R"({"type": "boolean"})", R"("1")", "true"},
    {R"({"type": "boolean"})", R"("0")", "false"},
    {R"({"type": "boolean"})", R"("perhaps")", R"("perhaps")"},
    {R"({"type": "boolean"})", "1", "true"},
    {R"({"type": "null"})", R"("None")", R"("None")"},
    {R"({"type": "null"})", R"("NULL")", "null"},
    {R"({"type": "object"})", R"("{\"b\": [1]}")", R"({"b":[1]})"},
    {R"({"type": "object"})", R"("{b: 1}")", R"("{b: 1}")"},
    {R"({"type": "array"})", R"("[1, \"x\"]")", R"([1,"x"])"},
    {R"({"type": "array"})", R"("x, y")", R"("x, y")"},
    {R"({"type": ["integer", "null"]})", R"("5")", "5"},
    {R"({"type": ["integer", "null"]})", R"("null")", "null"},
    {R"({"type": ["string", "null"]})", R"("null")", "null"},
    {R"({"type": ["string", "null"]})", R"("5")", R"("5")"},
    {R"({"type": ["string", "integer"]})", R"("5")", "5"},
    {R"({"type": ["string", "boolean"]})", R"("1")", "true"},
    {R"({"anyOf": [{"type": "number"}, {"type": "string"}]})", R"("2.5")", "2.5"},
    {R"({"anyOf": [{"type": "number"}, {"type": "string"}]})", R"("two")", R"("two")"},
    {R"({"oneOf": [{"type": "boolean"}, {"type": "null"}]})", R"("null")", "null"},
    {R"({"oneOf": [{"type": "object"}, {"type": "string"}]})", R"("{}")", "{}"},
    {R"({"allOf": [{"type": "integer"}, {"minimum": 1}]})", R"("7")", "7"},
    {R"({"enum": [1, 2]})", R"("2")", "2"},
    {R"({"enum": ["1", "2"]})", R"("2")", R"("2")"},
    {R"({"enum": [null, true, 1.5, [], {}]})", R"("true")", "true"},
    {"{}", R"("5")", R"("5")"},
    {R"({"description": "no type"})", R"("true")", R"("true")"},
    {R"({"type": "int"})", R"("5")", "5"},
    {R"({"type": "FLOAT"})", R"("5.5")", "5.5"},
    {R"({"type": "bool"})", R"("true")", "true"},
    {R"({"type": "str"})", R"("true")", R"("true")"},
    {R"({"type": "list"})", R"("[]")", "[]"},
    {R"({"type": "dict"})", R"("{}")", "{}"},
    {R"({"type": "array", "items": {"type": "integer"}})", R"(["1", 2, "x"])", R"([1,2,"x"])"},
    {R"({"type": "object", "properties": {"b": {"type": "integer"}}})",
     R"({"b": "1", "c": "1"})",
     R"({"b":1,"c":"1"})"},
    // The schema does not allow this value. vLLM returns the number.
    {R"({"type": ["array", "string"]})", R"("5")", R"("5")"},
};

TEST(ToolSchemas, arguments_get_the_types_that_vllm_gives_them) {
  for (const Retyping& test : kRetypings) {
    EXPECT_EQ(retyped(test.schema, test.value), test.expected) << test.schema << " " << test.value;
  }
}

TEST(ToolSchemas, references_are_followed_also_to_themselves) {
  const std::string definitions = R"({"n": {"type": "integer"}, "l": {"$ref": "#/$defs/l"},
      "t": {"anyOf": [{"$ref": "#/$defs/t"}, {"$ref": "#/$defs/n"}]}})";
  EXPECT_EQ(retyped(R"({"$ref": "#/$defs/n"})", R"("5")", definitions), "5");
  EXPECT_EQ(
      retyped(R"({"anyOf": [{"$ref": "#/$defs/n"}, {"type": "null"}]})", R"("null")", definitions),
      "null");
  EXPECT_EQ(retyped(R"({"$ref": "#/$defs/t"})", R"("5")", definitions), "5");
  for (const char* odd : {"#/$defs/l", "#/$defs/none", "#", "other.json", "#/~2"}) {
    EXPECT_EQ(retyped(Json{{"$ref", odd}}.dump(), R"("5")", definitions), R"("5")") << odd;
  }
}

TEST(ToolSchemas, tools_of_any_shape_are_taken) {
  for (const char* tools : {"null",
                            "[]",
                            "{}",
                            "[1]",
                            R"([{"function": 1}])",
                            R"([{"function": {"name": 1}}])",
                            R"([{"function": {"name": "f"}}])",
                            R"([{"function": {"name": "f", "parameters": 1}}])",
                            R"([{"function": {"name": "f", "parameters": {"properties": 1}}}])",
                            R"([{"function": {"name": "f", "parameters": {"properties":
                                {"a": true}}}}])"}) {
    Json arguments = {{"a", "5"}};
    ToolSchemas(Json::parse(tools)).retype("f", arguments);
    EXPECT_EQ(arguments["a"], "5") << tools;
  }
}

TEST(ToolSchemas, a_long_array_costs_one_look_at_the_schema_of_its_items) {
  Json choices = Json::array();
  for (int i = 0; i < 2000; ++i) choices.push_back({{"type", "integer"}});
  Json arguments = {{"a", Json::array()}};
  for (int i = 0; i < 100000; ++i) arguments["a"].push_back("5");
  const std::string schema = Json{{"items", {{"anyOf", choices}}}}.dump();
  ToolSchemas(tools_with(schema)).retype("f", arguments);  // seconds, if it looked each time
  EXPECT_EQ(arguments["a"].back(), 5);
}

/// A call of f with the argument a, whose value the format writes as `value`.
struct Wording {
  std::string_view parser;
  std::string before;
  std::string after;
};

TEST(ToolSchemas, every_format_whose_values_vllm_types_uses_them) {
  const std::vector<Wording> wordings = {
      {"qwen3_coder", "<tool_call><function=f><parameter=a>\n", "\n</parameter></function>"},
      {"qwen3_xml", "<tool_call><function=f><parameter=a>", "</parameter></function>"},
      {"mimo", "<tool_call><function=f><parameter=a>", "</parameter></function>"},
      {"seed_oss", "<seed:tool_call><function=f><parameter=a>", "</parameter></function>"},
      {"glm45", "<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>", "</arg_value>\n</tool_call>"},
      {"glm47", "<tool_call>f<arg_key>a</arg_key><arg_value>", "</arg_value></tool_call>"},
      {"minimax_m2",
       "<minimax:tool_call><invoke name=\"f\"><parameter name=\"a\">",
       "</parameter></invoke>"},
      {"deepseek_v32",
       "<｜DSML｜invoke name=\"f\"><｜DSML｜parameter name=\"a\" string=\"true\">",
       "</｜DSML｜parameter></｜DSML｜invoke>"},
      {"deepseek_v32",
       "<｜DSML｜invoke name=\"f\"><｜DSML｜parameter name=\"a\">",
       "</｜DSML｜parameter></｜DSML｜invoke>"},
      {"functiongemma", "<start_function_call>call:f{a:<escape>", "<escape>}<end_function_call>"},
      {"gemma4", "<|tool_call>call:f{a:<|\"|>", "<|\"|>}<tool_call|>"},
      {"gemma4", "<|tool_call>call:f{a:", "}<tool_call|>"},
      {"kimi_k2",
       "<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{\"a\": \"",
       "\"}<|tool_call_end|>"},
      {"mistral", "[TOOL_CALLS]f[ARGS]{\"a\": \"", "\"}"},
      {"granite", "<|tool_call|>[{\"name\": \"f\", \"arguments\": {\"a\": \"", "\"}}]"},
  };
  const std::vector<std::pair<std::string, std::string>> types = {
      {R"({"type": "string"})", R"({"a":"10"})"},
      {R"({"type": "integer"})", R"({"a":10})"},
      {R"({"type": ["number", "null"]})", R"({"a":10})"},
      {R"({"anyOf": [{"type": "string"}, {"type": "null"}]})", R"({"a":"10"})"}};
  for (const Wording& wording : wordings) {
    for (const auto& [schema, expected] : types) {
      const ToolSchemas schemas(tools_with(schema));
      const MessageDelta found = parse([&] { return create_tool_parser(wording.parser, schemas); },
                                       wording.before + "10" + wording.after);
      ASSERT_EQ(found.tool_calls.size(), 1U) << wording.parser << found.content;
      EXPECT_EQ(found.tool_calls[0].arguments, expected) << wording.parser << schema;
    }
  }
}

}  // namespace
}  // namespace reprise::output_parsers
