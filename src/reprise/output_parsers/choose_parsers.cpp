#include "reprise/output_parsers/choose_parsers.h"

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "reprise/output_parsers/reasoning_parser.h"
#include "reprise/output_parsers/tool_call.h"
#include "reprise/output_parsers/tool_parser.h"

namespace reprise::output_parsers {
namespace {

/// If several formats read the same text, the first of these is chosen, because its name is the
/// best known.
constexpr auto kPreferred = std::to_array<std::string_view>(
    {"hermes", "qwen3_coder", "glm45", "llama3_json", "pythonic", "hunyuan_a13b"});

/// The delimiters of a format. The format is recognised if the template contains all of them.
struct Signs {
  std::string_view parser;
  std::array<std::string_view, 2> delimiters;
};

// Used for templates that do not write earlier calls. Formats with delimiters of their own come
// before formats that share a delimiter with others.
constexpr auto kToolSigns = std::to_array<Signs>({
    {"openai", {"<|channel|>", "functions."}},
    {"kimi_k2", {"<|tool_call_begin|>", "<|tool_call_argument_begin|>"}},
    {"deepseek_v3", {"<｜tool▁sep｜>", "```json"}},
    {"deepseek_v31", {"<｜tool▁sep｜>", "<｜tool▁call▁begin｜>"}},
    {"lfm2", {"<|tool_list_start|>", "<|tool_list_end|>"}},
    {"lfm2", {"<|tool_call_start|>", "<|tool_call_end|>"}},
    {"phi4_mini_json", {"functools", "<|tool|>"}},
    {"llama4_pythonic", {"<|header_start|>", "<|python_start|>"}},
    {"granite", {"<|start_of_role|>", "<|tool_call|>"}},
    {"qwen3_coder", {"<function=", "<parameter="}},
    {"hermes", {"<tool_call>", "</tool_call>"}},
    {"llama3_json", {"<|start_header_id|>", "\"parameters\""}},
});

// Used for templates that do not write earlier thoughts.
constexpr auto kReasoningSigns = std::to_array<Signs>({
    {"openai_gptoss", {"<|channel|>", "analysis"}},
    {"mistral", {"[THINK]", "[/THINK]"}},
    {"deepseek_r1", {"<｜Assistant｜>", "</think>"}},
    {"qwen3", {"<think>", "</think>"}},
    {"qwen3", {"<|im_start|>", "</think>"}},
});

std::string_view first_with_signs(std::span<const Signs> list, const TemplateSamples& samples) {
  const auto found = std::find_if(list.begin(), list.end(), [&samples](const Signs& signs) {
    return std::all_of(
        signs.delimiters.begin(), signs.delimiters.end(), [&samples](std::string_view delimiter) {
          return samples.source.find(delimiter) != std::string::npos ||
                 samples.instructions.find(delimiter) != std::string::npos;
        });
  });
  return found == list.end() ? std::string_view{} : found->parser;
}

/// The number of bytes that a parser leaves as text beside the sample call; kNotFound if it does
/// not find the call.
constexpr size_t kNotFound = std::numeric_limits<size_t>::max();

size_t text_beside_call(std::string_view parser_name, std::string_view text) {
  const std::unique_ptr<OutputParser> parser =
      create_tool_parser(parser_name, ToolSchemas(sample_tools()));
  MessageDelta found;
  parser->push(text, found);
  parser->finish(AnswerEnd::by_model, found);
  if (found.tool_calls.size() != 1 || found.tool_calls[0].name != kSampleToolName) return kNotFound;
  const std::optional<Json> arguments = json_of(found.tool_calls[0].arguments);
  // Some templates sort the arguments.
  const Json expected = sample_arguments();
  if (!arguments || arguments->size() != expected.size()) return kNotFound;
  for (const auto& [name, value] : expected.items()) {
    if (!arguments->contains(name) || (*arguments)[name] != value) return kNotFound;
  }
  return found.content.size();
}

bool is_preferred(std::string_view name) {
  return std::find(kPreferred.begin(), kPreferred.end(), name) != kPreferred.end();
}

/// The parser that finds the sample call and leaves the least text beside it.
std::string_view parser_that_finds_the_call(const TemplateSamples& samples) {
  // Formats without delimiters must get the answer alone; other formats find their delimiters in
  // any text.
  std::string_view answer = samples.call;
  if (answer.starts_with(samples.generation)) answer.remove_prefix(samples.generation.size());
  std::string_view best;
  size_t least = kNotFound;
  for (const std::string_view name : tool_parser_names()) {
    const size_t beside =
        std::min(text_beside_call(name, answer), text_beside_call(name, samples.call));
    if (beside < least ||
        (beside == least && beside != kNotFound && is_preferred(name) && !is_preferred(best))) {
      best = name;
      least = beside;
    }
  }
  return best;
}

std::string_view choose_tool_parser(const TemplateSamples& samples) {
  if (const std::string_view found = parser_that_finds_the_call(samples); !found.empty())
    return found;
  // If a template writes calls in a form that no parser reads, no parser is chosen, whatever
  // delimiters the template contains.
  const size_t at = samples.call.find(kSampleToolName);
  const bool writes_calls =
      at != std::string::npos && samples.call.find("sample value", at) != std::string::npos;
  const std::string_view by_signs = first_with_signs(kToolSigns, samples);
  return writes_calls && by_signs != "llama4_pythonic" ? std::string_view{} : by_signs;
}

bool ends_with_delimiter(std::string_view text, const std::vector<std::string_view>& delimiters) {
  text = trimmed(text);
  return std::any_of(delimiters.begin(), delimiters.end(), [text](std::string_view delimiter) {
    return text.ends_with(delimiter);
  });
}

/// Whether the template writes the sample reasoning between the delimiters of this format.
bool writes_reasoning_as(const ReasoningFormat& format, const TemplateSamples& samples) {
  const std::string_view text = samples.reasoning;
  const size_t at = text.find(kSampleReasoning);
  if (at == std::string_view::npos) return false;
  std::string_view before = trimmed(text.substr(0, at));
  if (format.has_channels) return before.ends_with("<|channel|>analysis<|message|>");
  const std::string_view label = trimmed(format.label);
  if (!label.empty() && before.ends_with(label))
    before = trimmed(before.substr(0, before.size() - label.size()));
  const std::string_view after = trimmed(text.substr(at + kSampleReasoning.size()));
  return ends_with_delimiter(before, format.starts) &&
         std::any_of(format.ends.begin(), format.ends.end(), [after](std::string_view delimiter) {
           return after.starts_with(delimiter);
         });
}

/// Several families write <think>; they differ only in whether the prompt already contains the
/// opening tag.
std::string_view family_of_think_tags(std::string_view tool_parser,
                                      const TemplateSamples& samples) {
  for (const std::string_view family : {"minimax_m2", "kimi_k2", "glm45"}) {
    if (tool_parser == family) return family;
  }
  const bool is_opened = trimmed(samples.generation).ends_with("<think>");
  const bool is_chatml = samples.source.find("<|im_start|>") != std::string::npos;
  return is_opened && !is_chatml ? "deepseek_r1" : "qwen3";
}

std::string_view choose_reasoning_parser(std::string_view tool_parser,
                                         const TemplateSamples& samples) {
  std::string_view found;
  const std::vector<ReasoningFormat> formats = reasoning_formats();
  for (const ReasoningFormat& format : formats) {
    if (found.empty() && writes_reasoning_as(format, samples)) found = format.name;
  }
  for (const ReasoningFormat& format : formats) {
    if (found.empty() && !format.has_channels &&
        ends_with_delimiter(samples.generation, format.starts))
      found = format.name;
  }
  if (found.empty()) found = first_with_signs(kReasoningSigns, samples);
  if (found.empty() || reasoning_format(found).has_channels) return found;
  return reasoning_format(found).starts.front() == "<think>"
             ? family_of_think_tags(tool_parser, samples)
             : found;
}

}  // namespace

Json sample_arguments() { return {{"sample_key", "sample value"}, {"sample_count", 3}}; }

Json sample_tools() {
  return Json::array(
      {{{"type", "function"},
        {"function",
         {{"name", kSampleToolName},
          {"description", "A sample."},
          {"parameters",
           {{"type", "object"},
            {"properties",
             {{"sample_key", {{"type", "string"}, {"description", "A text."}}},
              {"sample_count", {{"type", "integer"}, {"description", "A number."}}}}},
            {"required", {"sample_key", "sample_count"}}}}}}}});
}

ChosenParsers choose_parsers(const TemplateSamples& samples) {
  const std::string_view tool_parser = choose_tool_parser(samples);
  return {.tool_call_parser = tool_parser,
          .reasoning_parser = choose_reasoning_parser(tool_parser, samples)};
}

}  // namespace reprise::output_parsers
