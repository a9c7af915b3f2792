#include "reprise/output_parsers/tool_parser.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <utility>

#include "reprise/base/error.h"
#include "reprise/base/nearest_name.h"
#include "reprise/output_parsers/harmony_parser.h"
#include "reprise/output_parsers/marked_call_parser.h"
#include "reprise/output_parsers/object_list_parser.h"
#include "reprise/output_parsers/pythonic_parser.h"
#include "reprise/output_parsers/tool_call.h"

namespace reprise::output_parsers {
namespace {

using Created = std::unique_ptr<OutputParser>;

/// Whether the tools' schemas decide the types of a call's arguments, after the format has read
/// them. vLLM does so for these formats.
enum class Types : uint8_t { as_written, by_schema };

struct ToolFormat {
  ToolParserInfo info;
  Created (*create)();
  Types types = Types::as_written;
};

/// A format whose calls stand between markers. `Markers` is a function, so that it can be a
/// template argument.
template <CallMarkers (*Markers)(), ReadCalls Read>
Created between_markers() {
  return std::make_unique<MarkedCallParser>(Markers(), Read);
}

CallMarkers tool_call_tags() { return {.begin = "<tool_call>", .end = "</tool_call>"}; }
CallMarkers tool_calls_tags() { return {.begin = "<tool_calls>", .end = "</tool_calls>"}; }
CallMarkers function_tags() {
  return {.begin = "<function=",
          .end = "</function>",
          .outer_begin = "<tool_call>",
          .outer_end = "</tool_call>",
          .may_lack_end = false};
}
CallMarkers seed_tags() {
  return {.begin = "<function=",
          .end = "</function>",
          .outer_begin = "<seed:tool_call>",
          .outer_end = "</seed:tool_call>",
          .may_lack_end = false};
}
CallMarkers minimax_tags() {
  return {.begin = "<invoke name=",
          .end = "</invoke>",
          .outer_begin = "<minimax:tool_call>",
          .outer_end = "</minimax:tool_call>",
          .may_lack_end = false};
}
CallMarkers deepseek_marks() {
  return {.begin = "<｜tool▁call▁begin｜>",
          .end = "<｜tool▁call▁end｜>",
          .outer_begin = "<｜tool▁calls▁begin｜>",
          .outer_end = "<｜tool▁calls▁end｜>"};
}
CallMarkers dsml_tags() {
  return {.begin = "<｜DSML｜invoke name=",
          .end = "</｜DSML｜invoke>",
          .outer_begin = "<｜DSML｜function_calls>",
          .outer_end = "</｜DSML｜function_calls>",
          .may_lack_end = false};
}
CallMarkers dsml_v4_tags() {
  CallMarkers tags = dsml_tags();
  tags.outer_begin = "<｜DSML｜tool_calls>";
  tags.outer_end = "</｜DSML｜tool_calls>";
  return tags;
}
CallMarkers kimi_marks() {
  return {.begin = "<|tool_call_begin|>",
          .end = "<|tool_call_end|>",
          .outer_begin = "<|tool_calls_section_begin|>",
          .outer_end = "<|tool_calls_section_end|>",
          .may_lack_end = false};
}
CallMarkers gemma4_marks() { return {.begin = "<|tool_call>", .end = "<tool_call|>"}; }
CallMarkers functiongemma_marks() {
  return {.begin = "<start_function_call>", .end = "<end_function_call>"};
}
CallMarkers olmo3_tags() {
  return {.begin = "<function_calls>", .end = "</function_calls>", .may_lack_end = false};
}
CallMarkers glm_tags() {
  return {.begin = "<tool_call>", .end = "</tool_call>", .may_lack_end = false};
}
CallMarkers lfm2_marks() { return {.begin = "<|tool_call_start|>", .end = "<|tool_call_end|>"}; }
CallMarkers longcat_tags() {
  return {.begin = "<longcat_tool_call>", .end = "</longcat_tool_call>"};
}
CallMarkers internlm_marks() {
  return {.begin = "<|action_start|><|plugin|>", .end = "<|action_end|>"};
}
CallMarkers cohere_marks() { return {.begin = "<|START_ACTION|>", .end = "<|END_ACTION|>"}; }
CallMarkers apertus_marks() { return {.begin = "<|tools_prefix|>", .end = "<|tools_suffix|>"}; }

Created object_list(ObjectListParser::Style style) {
  return std::make_unique<ObjectListParser>(style);
}
Created llama_json() {
  return object_list({.markers = {"<|python_tag|>"}, .may_lack_marker = true});
}
Created mistral() { return object_list({.markers = {"[TOOL_CALLS]"}, .has_names_outside = true}); }
Created granite() { return object_list({.markers = {"<|tool_call|>", "<tool_call>"}}); }
Created granite_20b() { return object_list({.markers = {"<function_call>"}}); }
Created phi4_mini() { return object_list({.markers = {"functools"}}); }
Created pythonic() { return std::make_unique<PythonicParser>(); }
Created harmony() { return std::make_unique<HarmonyParser>(HarmonyParser::Calls::are_reported); }

constexpr std::string_view kTagged = "<tool_call>{\"name\": ..., \"arguments\": {...}}</tool_call>";
constexpr std::string_view kFunctions =
    "<tool_call><function=NAME><parameter=KEY>value</parameter></function></tool_call>";
constexpr std::string_view kGlm =
    "<tool_call>NAME<arg_key>KEY</arg_key><arg_value>value</arg_value></tool_call>";
constexpr std::string_view kPythonList = "[NAME(key=value), ...]";

constexpr auto kToolFormats = std::to_array<ToolFormat>({
    {{"apertus", "Apertus", "<|tools_prefix|>[{\"NAME\": {...}}]<|tools_suffix|>"},
     between_markers<apertus_marks, read_keyed_calls>},
    {{"cohere_command3",
      "Command A and R7B",
      "<|START_ACTION|>[{\"tool_name\": ..., \"parameters\": {...}}]<|END_ACTION|>"},
     between_markers<cohere_marks, read_json_calls>},
    {{"deepseek_v3",
      "DeepSeek-V3 and R1",
      "<｜tool▁call▁begin｜>function<｜tool▁sep｜>NAME, arguments in a fenced block"},
     between_markers<deepseek_marks, read_deepseek_v3_call>},
    {{"deepseek_v31",
      "DeepSeek-V3.1",
      "<｜tool▁call▁begin｜>NAME<｜tool▁sep｜>{...}<｜tool▁call▁end｜>"},
     between_markers<deepseek_marks, read_deepseek_v31_call>},
    {{"deepseek_v32",
      "DeepSeek-V3.2",
      "<｜DSML｜invoke name=\"NAME\"><｜DSML｜parameter name=\"KEY\" string=\"true\">..."},
     between_markers<dsml_tags, read_dsml_call>,
     Types::by_schema},
    {{"deepseek_v4", "DeepSeek-V4", "as deepseek_v32, inside <｜DSML｜tool_calls>"},
     between_markers<dsml_v4_tags, read_dsml_call>,
     Types::by_schema},
    {{"ernie45", "ERNIE 4.5", kTagged}, between_markers<tool_call_tags, read_json_calls>},
    {{"functiongemma",
      "FunctionGemma",
      "<start_function_call>call:NAME{key:<escape>text<escape>}<end_function_call>"},
     between_markers<functiongemma_marks, read_functiongemma_call>,
     Types::by_schema},
    {{"gemma4", "Gemma 4", "<|tool_call>call:NAME{key:<|\"|>text<|\"|>}<tool_call|>"},
     between_markers<gemma4_marks, read_gemma4_call>,
     Types::by_schema},
    {{"glm45", "GLM-4.5 and 4.6", kGlm},
     between_markers<glm_tags, read_glm_call>,
     Types::by_schema},
    {{"glm47", "GLM-4.7", kGlm}, between_markers<glm_tags, read_glm_call>, Types::by_schema},
    {{"granite", "Granite 3", "<|tool_call|>[{\"name\": ..., \"arguments\": {...}}]"},
     granite,
     Types::by_schema},
    {{"granite-20b-fc",
      "Granite 20B function calling",
      "<function_call> {\"name\": ..., \"arguments\": {...}}"},
     granite_20b},
    {{"granite4", "Granite 4", kTagged}, between_markers<tool_call_tags, read_json_calls>},
    {{"hermes", "Qwen2.5, Qwen3, Hermes", kTagged},
     between_markers<tool_call_tags, read_json_calls>},
    {{"hunyuan_a13b", "Hunyuan A13B", "<tool_calls>[{\"name\": ...}]</tool_calls>"},
     between_markers<tool_calls_tags, read_json_calls>},
    {{"internlm",
      "InternLM 2.5",
      "<|action_start|><|plugin|>{\"name\": ..., \"parameters\": {...}}<|action_end|>"},
     between_markers<internlm_marks, read_json_calls>},
    {{"jamba", "Jamba", "<tool_calls>[{\"name\": ...}]</tool_calls>"},
     between_markers<tool_calls_tags, read_json_calls>},
    {{"kimi_k2",
      "Kimi-K2",
      "<|tool_call_begin|>functions.NAME:0<|tool_call_argument_begin|>{...}<|tool_call_end|>"},
     between_markers<kimi_marks, read_kimi_call>,
     Types::by_schema},
    {{"lfm2", "LFM2", "<|tool_call_start|>[NAME(key=value)]<|tool_call_end|>"},
     between_markers<lfm2_marks, read_python_calls>},
    {{"llama3_json", "Llama 3.1 and 3.2", "{\"name\": ..., \"parameters\": {...}} without tags"},
     llama_json},
    {{"llama4_json", "Llama 4", "as llama3_json"}, llama_json},
    {{"llama4_pythonic", "Llama 4", kPythonList}, pythonic},
    {{"longcat", "LongCat", "<longcat_tool_call>{\"name\": ...}</longcat_tool_call>"},
     between_markers<longcat_tags, read_json_calls>},
    {{"mimo", "MiMo", kFunctions},
     between_markers<function_tags, read_verbatim_function_call>,
     Types::by_schema},
    {{"minimax_m2",
      "MiniMax-M2",
      "<invoke name=\"NAME\"><parameter name=\"KEY\">value</parameter></invoke>"},
     between_markers<minimax_tags, read_invoke_call>,
     Types::by_schema},
    {{"mistral", "Mistral", "[TOOL_CALLS] and an array, or NAME{...}"}, mistral, Types::by_schema},
    {{"olmo3", "OLMo 3", "<function_calls>NAME(key=value)</function_calls>"},
     between_markers<olmo3_tags, read_python_calls>},
    {{"openai", "GPT-OSS (Harmony)", "<|channel|>commentary to=functions.NAME<|message|>{...}"},
     harmony},
    {{"phi4_mini_json", "Phi-4 mini", "functools[{\"name\": ..., \"arguments\": {...}}]"},
     phi4_mini},
    {{"pythonic", "Llama 3.2, ToolACE", kPythonList}, pythonic},
    {{"qwen3_coder", "Qwen3-Coder, Qwen3-Next, Qwen3.5", kFunctions},
     between_markers<function_tags, read_function_call>,
     Types::by_schema},
    {{"qwen3_json", "Qwen3", kTagged}, between_markers<tool_call_tags, read_json_calls>},
    {{"qwen3_xml", "Qwen3-Coder", kFunctions},
     between_markers<function_tags, read_function_call>,
     Types::by_schema},
    {{"seed_oss", "Seed-OSS", "as qwen3_coder, inside <seed:tool_call>"},
     between_markers<seed_tags, read_function_call>,
     Types::by_schema},
});

/// Passes on the answer of another parser, with the types that the tools' schemas give to
/// arguments.
class RetypingParser final : public OutputParser {
 public:
  RetypingParser(Created inner, ToolSchemas schemas)
      : inner_(std::move(inner)), schemas_(std::move(schemas)) {}

  void push(std::string_view text, MessageDelta& out) override {
    const size_t num_before = out.tool_calls.size();
    inner_->push(text, out);
    retype(num_before, out);
  }
  void finish(AnswerEnd end, MessageDelta& out) override {
    const size_t num_before = out.tool_calls.size();
    inner_->finish(end, out);
    retype(num_before, out);
  }

 private:
  void retype(size_t first, MessageDelta& out) const {
    for (size_t i = first; i < out.tool_calls.size(); ++i) {
      ToolCallDelta& call = out.tool_calls[i];  // a whole call
      std::optional<Json> arguments = json_of(call.arguments);
      if (!arguments) continue;
      schemas_.retype(call.name, *arguments);
      call.arguments = compact(*arguments);
    }
  }

  Created inner_;
  ToolSchemas schemas_;
};

class NamedCallParser final : public OutputParser {
 public:
  explicit NamedCallParser(std::string name) : name_(std::move(name)) {}

  void push(std::string_view text, MessageDelta& out) override {
    if (text.empty()) return;
    out.tool_calls.push_back({0, std::exchange(name_, {}), std::string(text)});
  }
  void finish(AnswerEnd, MessageDelta& out) override {
    if (!name_.empty()) out.tool_calls.push_back({0, std::exchange(name_, {}), {}});
  }

 private:
  std::string name_;  // empty after it was reported
};

}  // namespace

std::vector<ToolParserInfo> tool_parsers() {
  std::vector<ToolParserInfo> all;
  for (const ToolFormat& format : kToolFormats) all.push_back(format.info);
  return all;
}

std::vector<std::string_view> tool_parser_names() {
  std::vector<std::string_view> names;
  for (const ToolFormat& format : kToolFormats) names.push_back(format.info.name);
  return names;
}

std::unique_ptr<OutputParser> create_tool_parser(std::string_view name,
                                                 const ToolSchemas& schemas) {
  const auto* found =
      std::find_if(kToolFormats.begin(), kToolFormats.end(), [name](const ToolFormat& format) {
        return format.info.name == name;
      });
  if (found != kToolFormats.end()) {
    Created parser = found->create();
    if (found->types == Types::as_written) return parser;
    return std::make_unique<RetypingParser>(std::move(parser), schemas);
  }
  const std::vector<std::string_view> names = tool_parser_names();
  throw InvalidArgument(fmt::format("there is no tool-call parser '{}'{}; there are {}",
                                    name,
                                    did_you_mean(name, names),
                                    fmt::join(names, ", ")));
}

bool reads_reasoning_too(std::string_view tool_parser) noexcept { return tool_parser == "openai"; }

std::unique_ptr<OutputParser> create_named_call_parser(std::string name) {
  return std::make_unique<NamedCallParser>(std::move(name));
}

std::unique_ptr<OutputParser> create_required_calls_parser() {
  return object_list({.is_array = true});
}

}  // namespace reprise::output_parsers
