#include "reprise/output_parsers/format_cases.h"

#include <memory>

namespace reprise::output_parsers {
namespace {

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

const std::vector<ToolCallDelta> kTwoCalls = {{0, "get_weather", R"({"city":"San José","days":3})"},
                                              {1, "now", "{}"}};

}  // namespace

MessageDelta parse_pieces(const CreateOutputParser& create,
                          const std::vector<std::string>& pieces,
                          AnswerEnd end) {
  const std::unique_ptr<OutputParser> parser = create();
  MessageDelta delta;
  for (const std::string& piece : pieces) parser->push(piece, delta);
  parser->finish(end, delta);
  return joined(delta);
}

MessageDelta parse(const CreateOutputParser& create, const std::string& text) {
  return parse_pieces(create, {text});
}

const Json& case_tools() {
  // For formats that write every value as text.
  static const Json tools = Json::parse(R"([{"type": "function", "function": {"name": "get_weather",
    "parameters": {"type": "object", "properties": {
      "city": {"type": "string"}, "days": {"type": "integer"}}}}}])");
  return tools;
}

std::vector<FormatCase> format_cases() {
  const std::string json = R"({"city": "San José", "days": 3})";
  const std::string tagged =
      "Let me see.\n<tool_call>\n{\"name\": \"get_weather\", \"arguments\": " + json +
      "}\n</tool_call>\n<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n"
      "</tool_call>";
  const std::string functions =
      "<function=get_weather>\n<parameter=city>\nSan José\n</parameter>\n<parameter=days>\n3\n"
      "</parameter>\n</function>";
  const std::string array = "[{\"name\": \"get_weather\", \"arguments\": " + json +
                            "}, {\"name\": \"now\", \"arguments\": {}}]";
  const std::string python = "[get_weather(city=\"San José\", days=3), now()]";
  const std::string glm =
      "Let me see.\n<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>San "
      "José</arg_value>\n"
      "<arg_key>days</arg_key>\n<arg_value>3</arg_value>\n</tool_call>\n<tool_call>now\n</"
      "tool_call>";
  const std::string qwen_xml = "Let me see.\n<tool_call>\n" + functions +
                               "\n</tool_call>\n<tool_call>\n<function=now>\n</function>\n"
                               "</tool_call>";
  const std::string before = "Let me see.\n";
  std::vector<FormatCase> cases;
  const auto add =
      [&](std::string_view parser, const std::string& text, const std::string& content) {
        cases.push_back({parser, text, content, kTwoCalls});
      };
  for (const char* name : {"hermes", "qwen3_json", "granite4", "ernie45"})
    add(name, tagged, before);
  for (const char* name : {"qwen3_coder", "qwen3_xml"}) add(name, qwen_xml, before);
  for (const char* name : {"glm45", "glm47"}) add(name, glm, before);
  add("mimo",
      before +
          "<tool_call><function=get_weather><parameter=city>San José</parameter><parameter=days>"
          "3</parameter></function></tool_call><tool_call><function=now></function></tool_call>",
      before);
  for (const char* name : {"jamba", "hunyuan_a13b"})
    add(name, before + "<tool_calls>" + array + "</tool_calls>", before);
  for (const char* name : {"pythonic", "llama4_pythonic"}) add(name, python, "");
  add("llama4_pythonic", "<|python_start|>" + python + "<|python_end|>", "");
  for (const char* name : {"llama3_json", "llama4_json"}) {
    add(name,
        "{\"name\": \"get_weather\", \"parameters\": " + json +
            "}; {\"name\": \"now\", \"parameters\": {}}",
        "");
  }
  add("seed_oss",
      before + "<seed:tool_call>\n" + functions +
          "\n</seed:tool_call>\n<seed:tool_call>\n<function=now>\n</function>\n</seed:tool_call>",
      before);
  add("minimax_m2",
      before +
          "<minimax:tool_call>\n<invoke name=\"get_weather\">\n<parameter name=\"city\">San José"
          "</parameter>\n<parameter name=\"days\">3</parameter>\n</invoke>\n<invoke name=\"now\">\n"
          "</invoke>\n</minimax:tool_call>",
      before);
  add("kimi_k2",
      before +
          "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0"
          "<|tool_call_argument_begin|>" +
          json +
          "<|tool_call_end|><|tool_call_begin|>functions.now:1<|tool_call_argument_begin|>{}"
          "<|tool_call_end|><|tool_calls_section_end|>",
      before);
  add("deepseek_v3",
      before +
          "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```"
          "json\n" +
          json +
          "\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>now\n```json\n{}\n`"
          "``"
          "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
      before);
  add("deepseek_v31",
      before + "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>" + json +
          "<｜tool▁call▁end｜><｜tool▁call▁begin｜>now<｜tool▁sep｜>{}<｜tool▁call▁end｜>"
          "<｜tool▁calls▁end｜>",
      before);
  add("deepseek_v32",
      before +
          "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"get_weather\">\n<｜DSML｜parameter "
          "name=\"city\" string=\"true\">San José</｜DSML｜parameter>\n<｜DSML｜parameter "
          "name=\"days\" "
          "string=\"false\">3</｜DSML｜parameter>\n</｜DSML｜invoke>\n<｜DSML｜invoke "
          "name=\"now\">\n"
          "</｜DSML｜invoke>\n</｜DSML｜function_calls>",
      before);
  add("deepseek_v4",
      before +
          "<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"get_weather\">\n<｜DSML｜parameter "
          "name=\"city\" string=\"true\">San José</｜DSML｜parameter>\n<｜DSML｜parameter "
          "name=\"days\" "
          "string=\"false\">3</｜DSML｜parameter>\n</｜DSML｜invoke>\n<｜DSML｜invoke "
          "name=\"now\">\n"
          "</｜DSML｜invoke>\n</｜DSML｜tool_calls>",
      before);
  add("gemma4",
      before +
          "<|tool_call>call:get_weather{city:<|\"|>San José<|\"|>,days:3}<tool_call|><|tool_call>"
          "call:now{}<tool_call|>",
      before);
  add("functiongemma",
      before +
          "<start_function_call>call:get_weather{city:<escape>San José<escape>,days:<escape>3"
          "<escape>}<end_function_call><start_function_call>call:now{}<end_function_call>",
      before);
  add("granite", before + "<|tool_call|>" + array, before);
  add("granite", before + "<tool_call>" + array, before);
  add("granite-20b-fc",
      before + "<function_call> {\"name\": \"get_weather\", \"arguments\": " + json +
          "}\n<function_call> {\"name\": \"now\", \"arguments\": {}}",
      before);
  add("mistral", before + "[TOOL_CALLS]" + array, before);
  add("mistral",
      before + "[TOOL_CALLS]get_weather[ARGS]" + json + "[TOOL_CALLS]now[ARGS]{}",
      before);
  add("phi4_mini_json", before + "functools" + array, before);
  add("lfm2", before + "<|tool_call_start|>" + python + "<|tool_call_end|>", before);
  add("olmo3",
      before + "<function_calls>\nget_weather(city='San José', days=3)\nnow()\n</function_calls>",
      before);
  add("longcat",
      before + "<longcat_tool_call>{\"name\": \"get_weather\", \"arguments\": " + json +
          "}</longcat_tool_call>\n<longcat_tool_call>{\"name\": \"now\", \"arguments\": {}}"
          "</longcat_tool_call>",
      before);
  add("internlm",
      before + "<|action_start|><|plugin|>\n{\"name\": \"get_weather\", \"parameters\": " + json +
          "}\n<|action_end|><|action_start|><|plugin|>{\"name\": \"now\", \"parameters\": {}}"
          "<|action_end|>",
      before);
  add("cohere_command3",
      "<|START_ACTION|>[{\"tool_call_id\": \"0\", \"tool_name\": \"get_weather\", "
      "\"parameters\": " +
          json + "}, {\"tool_call_id\": \"1\", \"tool_name\": \"now\", \"parameters\": {}}]" +
          "<|END_ACTION|>",
      "");
  add("apertus",
      before + "<|tools_prefix|>[{\"get_weather\": " + json + "}, {\"now\": {}}]<|tools_suffix|>",
      before);
  add("openai",
      "<|channel|>final<|message|>Let me see.\n<|end|><|start|>assistant<|channel|>commentary "
      "to=functions.get_weather <|constrain|>json<|message|>" +
          json +
          "<|call|><|start|>assistant to=functions.now<|channel|>commentary "
          "json<|message|>{}<|call|>",
      before);
  return cases;
}

}  // namespace reprise::output_parsers
